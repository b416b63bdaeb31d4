// SPDX-License-Identifier: Apache-2.0
// Pools with windows of differing sizes, and rules that follow the indices of a max pool.
#include <algorithm>

#include "lower/gather.h"
#include "lower/pool.h"

namespace tpu::lower {

using namespace tpu::hlo;

// kPred [out, in]: whether window o covers place i. Window o goes from floor(o * in / out) to ceil((o + 1) *
// in / out).
static Value adaptive_windows(Program& p, int64_t out, int64_t in) {
  Type type = {DType::kS64, {out, in}};
  Value o = iota(p, type, 0), i = iota(p, type, 1);
  auto times = [&](Value x, int64_t y) { return x * constant(p, type, y); };
  // i >= floor(o * in / out) and i < ceil((o + 1) * in / out), without a division.
  return gt(times(i + 1.0, out), times(o, in)) & lt(times(i, out), times(o + 1.0, in));
}

// x with dim replaced by [out, in], where `covered` is true, else `other`. Windows are [out, in], or have x's
// leading dims too.
static Value in_windows(Value x, Value covered, int dim, Value other) {
  Dims dims = x.dims();
  int rank = covered.rank();
  dims.insert(dims.begin() + dim, covered.dim(rank - 2));
  std::vector<int> positions, places = {dim, dim + 1};
  for (int i = 0; i < x.rank(); ++i) positions.push_back(i < dim ? i : i + 1);
  for (int i = 0; i < rank - 2; ++i) places.insert(places.begin() + i, i);
  Value full = broadcast_in_dim(x, dims, positions);
  return select(broadcast_in_dim(covered, dims, places), full, broadcast_to(other, dims));
}

static Value zero(Value x) { return constant(x.program(), {x.dtype(), {}}, 0); }

// ---- averages: a masked sum for each dim, which also keeps NaN and infinities within their windows

// [out] floats: how many places each window covers.
static Value window_sizes(Value windows, DType dtype) { return reduce_sum(convert(windows, dtype), {1}); }

Rule adaptive_avg_pool(size_t n) {
  return [n](Args& a) {
    Value x = widen(a[0]);
    Dims out = a.ints(1, n);
    for (size_t i = 0; i < n; ++i) {
      int dim = x.rank() - static_cast<int>(n) + static_cast<int>(i);
      Value windows = adaptive_windows(a.program(), out[i], x.dim(dim));
      Value sizes = window_sizes(windows, x.dtype());
      x = reduce_sum(in_windows(x, windows, dim, zero(x)), {dim + 1});
      x = x / broadcast_in_dim(sizes, x.dims(), {dim});
    }
    return x;
  };
}

// (grad_output, self)
Rule adaptive_avg_pool_backward(size_t n) {
  return [n](Args& a) {
    Value grad = widen(a[0]);
    Dims dims = a.dims(1);
    for (size_t i = 0; i < n; ++i) {
      int dim = grad.rank() - static_cast<int>(n) + static_cast<int>(i);
      Value windows = adaptive_windows(a.program(), grad.dim(dim), dims[dim]);
      grad = grad / broadcast_in_dim(window_sizes(windows, grad.dtype()), grad.dims(), {dim});
      grad = reduce_sum(in_windows(grad, transpose(windows, {1, 0}), dim, zero(grad)), {dim + 1});
    }
    return grad;
  };
}

// ---- maxima

// The winners of the windows along dim: the first of the greatest, or the last NaN.
static Winner winners(Winner w, Value windows, int dim) {
  Program& p = w.value.program();
  Value values = in_windows(w.value, windows, dim, lowest(p, w.value.dtype()));
  Value best = reduce_max(values, {dim + 1});
  auto place_if = [&](Value hit, Value other) {
    return select(hit, in_windows(w.index, windows, dim, other), broadcast_to(other, hit.dims()));
  };
  Value most = highest(p, DType::kS32), none = constant(p, {DType::kS32, {}}, -1);
  Value first = reduce_min(place_if(eq(values, spread(best, values, {dim + 1})), most), {dim + 1});
  Value last_nan = reduce_max(place_if(is_nan(values), none), {dim + 1});
  return {best, select(is_nan(best), last_nan, first)};
}

// (self, output_size) -> (output, indices)
Rule adaptive_max_pool(size_t n) {
  return [n](Args& a) -> Results {
    Value x = a[0];
    Dims out = a.ints(1, n);
    Winner w = each_place(x, n);
    for (size_t i = n; i-- > 0;) {
      int dim = x.rank() - static_cast<int>(n - i);
      w = winners(w, adaptive_windows(a.program(), out[i], x.dim(dim)), dim);
    }
    return {w.value, w.index};
  };
}

// (self, kernel_size, output_size, random_samples [batch, channel, n]) -> (output, indices). The samples
// count the dims from the last one for 2 dims, and from the first one for 3, as PyTorch does.
Rule fractional_max_pool(size_t n) {
  return [n](Args& a) -> Results {
    Value x = a[0];
    Dims size = a.ints(1, n), out = a.ints(2, n);
    Dims leading(x.dims().begin(), x.dims().end() - static_cast<int64_t>(n));
    // As on the CPU, there may be more samples than planes.
    int64_t planes = 1;
    for (int64_t d : leading) planes *= d;
    Value samples = a[3];
    samples = reshape(samples, {samples.dim(0) * samples.dim(1), samples.dim(2)});
    samples = slice_in_dim(samples, 0, planes, 1, 0);
    Winner w = each_place(x, n);
    for (size_t i = n; i-- > 0;) {
      int dim = x.rank() - static_cast<int>(n - i);
      int64_t which = static_cast<int64_t>(n == 2 ? 1 - i : i), in = x.dim(dim);
      Dims dims = leading;
      dims.push_back(out[i]);
      Value sample = reshape(slice_in_dim(samples, which, which + 1, 1, 1), leading);
      std::vector<int> positions(leading.size());
      for (size_t d = 0; d < positions.size(); ++d) positions[d] = static_cast<int>(d);
      sample = broadcast_in_dim(sample, dims, positions);
      double alpha = out[i] > 1 ? static_cast<double>(in - size[i]) / static_cast<double>(out[i] - 1) : 0;
      Value o = iota_like(sample, sample.rank() - 1, DType::kS32);
      Value start = convert((convert(o, sample.dtype()) + sample) * alpha, DType::kS32) -
                    convert(sample * alpha, DType::kS32);
      start = select(eq(o, static_cast<double>(out[i] - 1)),
                     constant_like(o, static_cast<double>(in - size[i])), start);
      dims.push_back(in);
      Value begin =
          spread(start, iota(a.program(), {DType::kS32, dims}, 0), {static_cast<int>(dims.size()) - 1});
      Value place = iota_like(begin, begin.rank() - 1, DType::kS32);
      Value covered = ge(place, begin) & lt(place, begin + static_cast<double>(size[i]));
      w = winners(w, covered, dim);
    }
    return {w.value, w.index};
  };
}

// ---- by index

Value scatter_planes(Value x, Value indices, const Dims& dims, size_t n, Binary body) {
  int64_t planes = 1, places = 1, size = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    bool in_plane = i + n >= dims.size();
    (in_plane ? size : planes) *= dims[i];
    if (in_plane) places *= x.dims()[i];
  }
  Value canvas = constant(x.program(), {x.dtype(), {planes, size}}, 0);
  Value index = reshape(convert(indices, DType::kS32), {planes, places});
  return reshape(scatter_along(canvas, index, reshape(x, {planes, places}), 1, body), dims);
}

Rule pool_backward_by_index(size_t n, size_t indices) {
  return [n, indices](Args& a) {
    Value grad = scatter_planes(widen(a[0]), a[indices], a.dims(1), n, add);
    return convert(grad, a.dtype(1));
  };
}

// (self, indices, output_size, ..)
Rule max_unpool(size_t n) {
  return [n](Args& a) {
    Value x = a[0], indices = convert(a[1], DType::kS64);
    Dims out = a.ints(2, n), dims = x.dims();
    std::copy(out.begin(), out.end(), dims.end() - static_cast<int64_t>(n));
    std::vector<int> all(x.rank());
    for (int i = 0; i < x.rank(); ++i) all[i] = i;
    Value inside = ge(indices, 0) & lt(indices, static_cast<double>(product(out)));
    a.source().require(reduce_and(inside, all), "runtime", "Found an invalid max index");
    return scatter_planes(x, indices, dims, n, nullptr);
  };
}

}  // namespace tpu::lower
