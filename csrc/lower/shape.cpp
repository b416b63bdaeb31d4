// SPDX-License-Identifier: Apache-2.0
// Joining, padding, moving and repeating of elements, and the gradients of views.
#include <c10/core/ScalarType.h>

#include "lower/line.h"
#include "lower/resample.h"
#include "lower/shape_windows.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

Value zeros(Args& a, DType dtype, Dims dims) {
  return constant(a.program(), Type{dtype, std::move(dims)}, 0);
}

// ---- joining
std::vector<Value> to_common_dtype(std::vector<Value> xs) {
  auto common = scalar_type_of(xs[0].dtype());
  for (Value x : xs) common = c10::promoteTypes(common, scalar_type_of(x.dtype()));
  for (Value& x : xs) x = convert(x, dtype_of(common));
  return xs;
}

// (tensors, dim). An empty line joins with everything, for historical reasons.
Value cat(Args& a) {
  auto all = to_common_dtype(a.list(0));
  std::vector<Value> xs;
  for (Value x : all)
    if (x.rank() != 1 || x.dim(0) != 0) xs.push_back(x);
  if (xs.empty()) return all[0];
  return xs.size() == 1 ? xs[0] : concatenate(xs, a.dim(1, xs[0].rank()));
}

Value stack(Args& a) {
  auto xs = to_common_dtype(a.list(0));
  int dim = a.dim(1, xs[0].rank() + 1);
  for (Value& x : xs) x = unsqueeze(x, dim);
  return xs.size() == 1 ? xs[0] : concatenate(xs, dim);
}

// ---- moving
Value flip(Args& a) {
  Value x = a[0];
  if (x.rank() == 0 || a.ints(1).empty()) return x;
  return reverse(x, a.dims(1, x.rank()));
}

Value rolled(Value x, int64_t shift, int dim) {
  int64_t n = x.dim(dim);
  if (n == 0) return x;
  int64_t head = ((-shift % n) + n) % n;  // the elements that move from the front to the back
  return head == 0 ? x : concatenate({cut(x, dim, head, n), cut(x, dim, 0, head)}, dim);
}

// (self, shifts, dims): without dims, in the flattened tensor.
Value roll(Args& a) {
  Value x = a[0];
  Dims shifts = a.ints(1), dims = a.ints(2);
  if (dims.empty()) return shaped(rolled(flatten(x), shifts[0], 0), x.dims());
  Value y = line(x);
  for (size_t i = 0; i < dims.size(); ++i) y = rolled(y, shifts[i], wrap_dim(dims[i], y.rank()));
  return shaped(y, x.dims());
}

// (self, repeats): dims are aligned at the right, as in broadcasting.
Value repeat(Args& a) {
  Value x = a[0];
  Dims repeats = a.ints(1), pairs, result;
  std::vector<int> positions;
  int added = static_cast<int>(repeats.size()) - x.rank();
  for (int i = 0; i < static_cast<int>(repeats.size()); ++i) {
    int64_t size = i < added ? 1 : x.dim(i - added);
    pairs.insert(pairs.end(), {repeats[i], size});
    result.push_back(repeats[i] * size);
    if (i >= added) positions.push_back(2 * i + 1);
  }
  return reshape(broadcast_in_dim(x, pairs, positions), result);
}

// (self, groups)
Value channel_shuffle(Args& a) {
  Value x = a[0];
  int64_t groups = a.integer(1);
  Dims dims = x.dims();
  dims[1] /= groups;
  dims.insert(dims.begin() + 1, groups);
  return reshape(move_dim(reshape(x, dims), 1, 2), x.dims());
}

// (self, factor): [..., C f f, H, W] -> [..., C, H f, W f]
Value pixel_shuffle(Args& a) {
  Value x = a[0];
  int64_t f = a.integer(1), h = x.dim(x.rank() - 2), w = x.dim(x.rank() - 1);
  Dims lead(x.dims().begin(), x.dims().end() - 3);
  int64_t outer = product(lead), channels = x.dim(x.rank() - 3) / (f * f);
  Value y = transpose(reshape(x, {outer, channels, f, f, h, w}), {0, 1, 4, 2, 5, 3});
  lead.insert(lead.end(), {channels, h * f, w * f});
  return reshape(y, lead);
}

Value pixel_unshuffle(Args& a) {
  Value x = a[0];
  int64_t f = a.integer(1), h = x.dim(x.rank() - 2) / f, w = x.dim(x.rank() - 1) / f;
  Dims lead(x.dims().begin(), x.dims().end() - 3);
  int64_t outer = product(lead), channels = x.dim(x.rank() - 3);
  Value y = transpose(reshape(x, {outer, channels, h, f, w, f}), {0, 1, 3, 5, 2, 4});
  lead.insert(lead.end(), {channels * f * f, h, w});
  return reshape(y, lead);
}

// ---- padding. A list of paddings starts with the last dim: (low, high) of each.
// (self, pad, value)
Value constant_pad(Args& a) {
  Value x = a[0];
  Dims padding = a.ints(1), low(x.rank(), 0), high(x.rank(), 0);
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    low[x.rank() - 1 - i] = padding[2 * i];
    high[x.rank() - 1 - i] = padding[2 * i + 1];
  }
  return pad(x, a.scalar(2, x.dtype()), low, high);
}

// A border of `count` elements next to the first (or last) one: its mirror image without the edge, or copies
// of it.
Value border(Value x, int dim, int64_t count, bool at_start, bool mirrors) {
  int64_t n = x.dim(dim);
  if (!mirrors) {
    Value edge = at_start ? cut(x, dim, 0, 1) : cut(x, dim, n - 1, n);
    return broadcast_to(edge, with_size(x.dims(), dim, count));
  }
  return reverse(at_start ? cut(x, dim, 1, count + 1) : cut(x, dim, n - 1 - count, n - 1), {dim});
}

// Negative paddings take elements away.
Rule border_pad(int spatial, bool mirrors) {
  return [=](Args& a) {
    Value x = a[0];
    Dims padding = a.ints(1);
    for (int i = 0; i < spatial; ++i) {
      int dim = x.rank() - 1 - i;
      int64_t low = padding[2 * i], high = padding[2 * i + 1], n = x.dim(dim);
      std::vector<Value> parts{cut(x, dim, std::max<int64_t>(0, -low), n - std::max<int64_t>(0, -high))};
      if (low > 0) parts.insert(parts.begin(), border(x, dim, low, true, mirrors));
      if (high > 0) parts.push_back(border(x, dim, high, false, mirrors));
      if (parts.size() > 1 || parts[0].dims() != x.dims())
        x = parts.size() == 1 ? parts[0] : concatenate(parts, dim);
    }
    return x;
  };
}

// (grad_output, self, padding): each border's gradient goes back to where it was copied from.
Rule border_pad_backward(int spatial, bool mirrors) {
  return [=](Args& a) {
    Value grad = widen(a[0]);
    Dims sizes = a.dims(1), padding = a.ints(2);
    Value zero = zero_of(grad);
    for (int i = spatial - 1; i >= 0; --i) {
      int dim = grad.rank() - 1 - i;
      int64_t low = padding[2 * i], high = padding[2 * i + 1], n = sizes[dim], padded = grad.dim(dim);
      int64_t start = std::max<int64_t>(0, low), limit = padded - std::max<int64_t>(0, high);
      Value sum = place(cut(grad, dim, start, limit), zero, dim, n, std::max<int64_t>(0, -low));
      auto give_back = [&](Value part, int64_t at, int64_t edge) {
        if (mirrors)
          sum = sum + place(reverse(part, {dim}), zero, dim, n, at);
        else
          sum = sum + place(unsqueeze(reduce_sum(part, {dim}), dim), zero, dim, n, edge);
      };
      if (low > 0) give_back(cut(grad, dim, 0, low), 1, 0);
      if (high > 0) give_back(cut(grad, dim, padded - high, padded), n - 1 - high, n - 1);
      grad = sum;
    }
    return grad;
  };
}

// ---- slices: gradients, and writing into a copy. Places are run-time operands, so that a moving one is one
// program. The int argument i as a 0-d operand, counted from the end if negative.
Value position(Args& a, size_t i, int64_t size) {
  Value at = a.scalar(i, DType::kS64);
  return hlo::select(lt(at, 0.0), at + static_cast<double>(size), at);
}

Value slice_written(Args& a, Value x, Value part, int dim, Value start) {
  std::vector<Value> starts(x.rank(), constant(a.program(), Type{start.dtype(), {}}, 0));
  starts[dim] = start;
  return dynamic_update_slice(x, part, starts);
}

Value select_written(Args& a, Value x, Value part, int dim, size_t index) {
  Value at = position(a, index, x.dim(dim));
  Value hit = eq(iota_like(x, dim, DType::kS64), broadcast_to(at, x.dims()));
  return hlo::select(hit, spread(part, x, {dim}), x);
}

// (grad_output, input_sizes, dim, start, end, step)
Value slice_backward(Args& a) {
  Value grad = a[0];
  Dims sizes = a.ints(1);
  int dim = a.dim(2, grad.rank());
  int64_t step = a.integer(5);
  if (grad.numel() == 0) return zeros(a, grad.dtype(), sizes);
  if (grad.dims() == sizes) return grad;
  if (step == 1)
    return slice_written(a, zeros(a, grad.dtype(), sizes), grad, dim, position(a, 3, sizes[dim]));
  int64_t start = a.integer(3);
  if (start < 0) start = std::max<int64_t>(0, start + sizes[dim]);
  return place(grad, zero_of(grad), dim, sizes[dim], start, step);
}

// (grad_output, input_sizes, dim, index)
Value select_backward(Args& a) {
  Value grad = a[0];
  Dims sizes = a.ints(1);
  return select_written(a, zeros(a, grad.dtype(), sizes), grad, a.dim(2, static_cast<int>(sizes.size())), 3);
}

// (self, src, dim, index)
Value select_scatter(Args& a) {
  Value x = a[0];
  return select_written(a, x, convert(a[1], x.dtype()), a.dim(2, x.rank()), 3);
}

// (self, src, dim, start?, end?, step)
Value slice_scatter(Args& a) {
  Value x = a[0], part = convert(a[1], x.dtype());
  int dim = a.dim(2, x.rank());
  int64_t step = a.integer(5), n = x.dim(dim);
  if (part.numel() == 0) return x;
  if (step == 1 && a.has(3)) return slice_written(a, x, part, dim, position(a, 3, n));
  int64_t start = a.integer_or(3, 0);
  if (start < 0) start = std::max<int64_t>(0, start + n);
  if (part.dims() == x.dims()) return part;
  Value spot = iota_like(x, dim, DType::kS64) - static_cast<double>(start);
  Value inside = and_(ge(spot, 0.0), lt(spot, static_cast<double>(part.dim(dim) * step)));
  if (step > 1)
    inside = and_(inside, eq(remainder(spot, constant_like(spot, static_cast<double>(step))), 0.0));
  return hlo::select(inside, place(part, zero_of(part), dim, n, start, step), x);
}

// ---- diagonals
// The last dim of x as a diagonal of zeros in two new dims of sizes n1 and n2.
Value diagonal_of(Value x, int64_t n1, int64_t n2, int64_t offset, int dim1, int dim2) {
  int last = x.rank() - 1;
  Dims dims = x.dims();
  dims[last] = n1;
  dims.push_back(n2);
  std::vector<int> positions(x.rank());
  for (int i = 0; i <= last; ++i) positions[i] = i;
  Value rows =
      broadcast_in_dim(place(x, zero_of(x), last, n1, std::max<int64_t>(0, -offset)), dims, positions);
  Value distance = iota_like(rows, last + 1, DType::kS32) - iota_like(rows, last, DType::kS32);
  Value square = hlo::select(eq(distance, static_cast<double>(offset)), rows, zeros_like(rows));
  // The last two dims move to dim1 and dim2; the smaller place is taken first.
  if (dim1 < dim2) return move_dim(move_dim(square, last, dim1), last + 1, dim2);
  return move_dim(move_dim(square, last + 1, dim2), last + 1, dim1);
}

// (self, offset, dim1, dim2)
Value diag_embed(Args& a) {
  Value x = a[0];
  int64_t offset = a.integer(1), n = x.dims().back() + std::abs(offset);
  return diagonal_of(x, n, n, offset, a.dim(2, x.rank() + 1), a.dim(3, x.rank() + 1));
}

// (grad_output, input_sizes, offset, dim1, dim2)
Value diagonal_backward(Args& a) {
  Dims sizes = a.ints(1);
  int rank = static_cast<int>(sizes.size()), dim1 = a.dim(3, rank), dim2 = a.dim(4, rank);
  return diagonal_of(a[0], sizes[dim1], sizes[dim2], a.integer(2), dim1, dim2);
}

}  // namespace

const Table shape_table = {
    {"_upsample_bicubic2d_aa", upsample(Resample::kCubicAntialias)},
    {"_upsample_bicubic2d_aa_backward", upsample_backward(Resample::kCubicAntialias)},
    {"_upsample_bilinear2d_aa", upsample(Resample::kLinearAntialias)},
    {"_upsample_bilinear2d_aa_backward", upsample_backward(Resample::kLinearAntialias)},
    {"_upsample_nearest_exact1d", upsample(Resample::kNearestExact), kNoMetaOfEmpty},
    {"_upsample_nearest_exact1d_backward", upsample_backward(Resample::kNearestExact), kNoMetaOfEmpty},
    {"_upsample_nearest_exact2d", upsample(Resample::kNearestExact), kNoMetaOfEmpty},
    {"_upsample_nearest_exact2d_backward", upsample_backward(Resample::kNearestExact), kNoMetaOfEmpty},
    {"_upsample_nearest_exact3d", upsample(Resample::kNearestExact), kNoMetaOfEmpty},
    {"_upsample_nearest_exact3d_backward", upsample_backward(Resample::kNearestExact), kNoMetaOfEmpty},
    {"cat", cat},
    {"channel_shuffle", channel_shuffle},
    {"col2im", col2im},
    {"constant_pad_nd", constant_pad},
    {"diag_embed", diag_embed},
    {"diagonal_backward", diagonal_backward},
    {"flip", flip},
    {"im2col", im2col},
    {"pixel_shuffle", pixel_shuffle},
    {"pixel_unshuffle", pixel_unshuffle},
    {"reflection_pad1d", border_pad(1, true)},
    {"reflection_pad1d_backward", border_pad_backward(1, true)},
    {"reflection_pad2d", border_pad(2, true)},
    {"reflection_pad2d_backward", border_pad_backward(2, true)},
    {"reflection_pad3d", border_pad(3, true)},
    {"reflection_pad3d_backward", border_pad_backward(3, true)},
    {"repeat", repeat},
    {"replication_pad1d", border_pad(1, false)},
    {"replication_pad1d_backward", border_pad_backward(1, false)},
    {"replication_pad2d", border_pad(2, false)},
    {"replication_pad2d_backward", border_pad_backward(2, false)},
    {"replication_pad3d", border_pad(3, false)},
    {"replication_pad3d_backward", border_pad_backward(3, false)},
    {"roll", roll},
    {"select_backward", select_backward},
    {"select_scatter", select_scatter, kNoMetaOfGaps},
    {"slice_backward", slice_backward},
    {"slice_scatter", slice_scatter},
    {"stack", stack},
    {"unfold_backward", unfold_backward},
    {"upsample_bicubic2d", upsample(Resample::kCubic)},
    {"upsample_bicubic2d_backward", upsample_backward(Resample::kCubic)},
    {"upsample_bilinear2d", upsample(Resample::kLinear)},
    {"upsample_bilinear2d_backward", upsample_backward(Resample::kLinear)},
    {"upsample_linear1d", upsample(Resample::kLinear)},
    {"upsample_linear1d_backward", upsample_backward(Resample::kLinear)},
    {"upsample_nearest1d", upsample(Resample::kNearest), kNoMetaOfEmpty},
    {"upsample_nearest1d_backward", upsample_backward(Resample::kNearest), kNoMetaOfEmpty},
    {"upsample_nearest2d", upsample(Resample::kNearest), kNoMetaOfEmpty},
    {"upsample_nearest2d_backward", upsample_backward(Resample::kNearest), kNoMetaOfEmpty},
    {"upsample_nearest3d", upsample(Resample::kNearest), kNoMetaOfEmpty},
    {"upsample_nearest3d_backward", upsample_backward(Resample::kNearest), kNoMetaOfEmpty},
    {"upsample_trilinear3d", upsample(Resample::kLinear)},
    {"upsample_trilinear3d_backward", upsample_backward(Resample::kLinear)},
};

}  // namespace tpu::lower
