// SPDX-License-Identifier: Apache-2.0
// Indexing, gather and scatter. Embedding tables are in embedding.cpp, grid sampling in grid.cpp.
#include <functional>
#include <optional>

#include "lower/embedding.h"
#include "lower/gather.h"
#include "lower/grid.h"
#include "lower/line.h"
#include "lower/scan.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// A result, or the source of a write, in the dims of argument i.
Value like_arg(Args& a, size_t i, Value x) { return shaped(x, a.dims(i)); }

std::string out_of_bounds(int dim, int64_t size) {
  return "index is out of bounds for dimension " + std::to_string(dim) + " with size " + std::to_string(size);
}

// ---- x[i, :, j]
// The places that a list of index tensors names, as one index array and the gather that reads it.
struct Places {
  Value index;               // indices side by side in a last dim
  std::vector<int> dims;     // the dims of x that are indexed
  std::vector<int> windows;  // where the other dims of x are in the result
  Dims result;
};

Places places(Args& a, Value x, size_t list) {
  auto given = a.maybe_list(list);
  Places p;
  std::vector<Value> indices;
  Dims shape;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) continue;
    int64_t size = x.dim(static_cast<int>(i));
    p.dims.push_back(static_cast<int>(i));
    indices.push_back(checked_index(a, *given[i], size, true, out_of_bounds(static_cast<int>(i), size)));
    shape = broadcast_dims(shape, indices.back().dims());
  }
  int rank = static_cast<int>(shape.size()), count = static_cast<int>(p.dims.size());
  bool adjacent = p.dims.back() - p.dims.front() == count - 1;
  int front = adjacent ? p.dims.front() : 0;  // where the dims of the indices go

  DType dtype = DType::kS32;
  for (Value index : indices)
    if (index.dtype() == DType::kS64) dtype = DType::kS64;
  for (Value& index : indices) index = unsqueeze(broadcast_to(convert(index, dtype), shape), rank);
  p.index = indices.size() == 1 ? indices[0] : concatenate(indices, rank);

  for (int d = 0, next = 0; d < x.rank(); ++d) {
    if (next == count || p.dims[next] != d)
      p.result.push_back(x.dim(d));
    else
      ++next;
  }
  for (int i = 0; i < static_cast<int>(p.result.size()); ++i) p.windows.push_back(i < front ? i : i + rank);
  p.result.insert(p.result.begin() + front, shape.begin(), shape.end());
  return p;
}

// (self, indices)
Value index(Args& a) {
  Value x = a[0];
  Places p = places(a, x, 1);
  if (product(p.result) == 0) return constant(x.program(), Type{x.dtype(), p.result}, 0);
  Dims sizes = x.dims();
  for (int dim : p.dims) sizes[dim] = 1;
  GatherDims dims{.offset_dims = p.windows,
                  .collapsed_slice_dims = p.dims,
                  .start_index_map = p.dims,
                  .index_vector_dim = p.index.rank() - 1};
  return gather(x, p.index, dims, sizes);
}

// x[mask] = number needs no places: the mask picks between old and new.
std::optional<Value> put_masked(Args& a, Value x) {
  auto given = a.maybe_list(1);
  std::vector<int> dims;
  Value mask;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) continue;
    if (mask || given[i]->dtype() != DType::kPred) return {};
    mask = *given[i];
    for (int d = 0; d < mask.rank(); ++d) dims.push_back(static_cast<int>(i) + d);
  }
  if (!mask || product(a.dims(2)) != 1) return {};
  Value value = broadcast_to(reshape(convert(a[2], x.dtype()), {}), x.dims());
  if (a.flag(3)) value = x.dtype() == DType::kPred ? or_(x, value) : x + value;
  return hlo::select(broadcast_in_dim(mask, x.dims(), dims), value, x);
}

// (self, indices, values, accumulate)
Value index_put(Args& a) {
  Value x = a[0];
  bool accumulate = a.flag(3);
  if (auto result = put_masked(a, x)) return *result;
  Places p = places(a, x, 1);
  if (product(p.result) == 0) return x;
  if (accumulate) x = widen(x);
  Value values = broadcast_to(convert(a[2], x.dtype()), p.result);
  ScatterDims dims{.update_window_dims = p.windows,
                   .inserted_window_dims = p.dims,
                   .scatter_dims_to_operand_dims = p.dims,
                   .index_vector_dim = p.index.rank() - 1};
  return scatter(x, p.index, values, dims,
                 !accumulate                 ? nullptr
                 : x.dtype() == DType::kPred ? Binary(or_)
                                             : Binary(add));
}

// ---- scatter with a reduction
using Write = std::function<Value(Value target, Value updates, Binary body)>;

// What `how` starts from where the old value does not count.
Value neutral(Value x, const std::string& how) {
  Type number{x.dtype(), {}};
  Value value = how == "amax"   ? lowest(x.program(), x.dtype())
                : how == "amin" ? highest(x.program(), x.dtype())
                                : constant(x.program(), number, how == "prod" || how == "multiply" ? 1 : 0);
  return value;
}

Binary body_of(const std::string& how, DType dtype) {
  bool pred = dtype == DType::kPred;
  if (how == "prod" || how == "multiply") return pred ? Binary(and_) : Binary(multiply);
  if (how == "amax") return maximum;
  if (how == "amin") return minimum;
  return pred ? Binary(or_) : Binary(add);  // sum, add, mean
}

Value divide_by_count(Value sum, Value count) {
  count = maximum(count, 1.0);
  if (!is_integral(sum.dtype())) return sum / convert(count, sum.dtype());
  count = convert(count, sum.dtype());
  Value quotient = sum / count, rest = sum - quotient * count;  // floors: PyTorch divides integers so here
  return is_unsigned(sum.dtype()) ? quotient : quotient - convert(lt(rest, zeros_like(rest)), sum.dtype());
}

// `write` puts updates of their own shape to their places in a target of x's shape.
Value reduce_into(Value x, Value updates, const std::string& how, bool include_self, const Write& write) {
  x = widen(x);
  updates = convert(updates, x.dtype());
  Binary body = body_of(how, x.dtype());
  Value start = x;
  if (!include_self) start = write(x, broadcast_to(neutral(x, how), updates.dims()), nullptr);
  Value result = write(start, updates, body);
  if (how != "mean") return result;
  auto ones = [&](const Dims& dims, int value) {
    return constant(x.program(), Type{DType::kS32, dims}, value);
  };
  return divide_by_count(result, write(ones(x.dims(), include_self ? 1 : 0), ones(updates.dims(), 1), add));
}

// ---- along a dim, element by element
struct Along {
  Value x, index;
  int dim;
};

// (self, dim, index, ...)
Along along(Args& a) {
  Value x = line(a[0]);
  int dim = a.dim(1, x.rank());
  int64_t size = x.dim(dim);
  return {x, checked_index(a, line(a[2]), size, false, out_of_bounds(dim, size), "runtime"), dim};
}

Value gather_along(Args& a) {
  auto [x, index, dim] = along(a);
  return like_arg(a, 2, take_along(x, index, dim));
}

Value source_of(Args& a, const Along& at, size_t i, bool is_number) {
  if (is_number) return broadcast_to(a.scalar(i, at.x.dtype()), at.index.dims());
  return line(a[i]);
}

Value scatter_with(Args& a, Value source, const Along& at, const std::string& how, bool include_self) {
  Write write = [&](Value target, Value updates, Binary body) {
    return scatter_along(target, at.index, updates, at.dim, body);
  };
  if (how.empty()) return like_arg(a, 0, write(at.x, convert(source, at.x.dtype()), nullptr));
  return like_arg(a, 0, reduce_into(at.x, source, how, include_self, write));
}

// scatter.*: (self, dim, index, src or value, [reduce])
Rule scatter_rule(bool is_number, bool reduces) {
  return [=](Args& a) {
    Along at = along(a);
    return scatter_with(a, source_of(a, at, 3, is_number), at, reduces ? a.string(4) : "", true);
  };
}

Value scatter_add(Args& a) {
  Along at = along(a);
  return scatter_with(a, line(a[3]), at, "add", true);
}

// (self, dim, index, src, reduce, *, include_self)
Value scatter_reduce(Args& a) {
  Along at = along(a);
  return scatter_with(a, line(a[3]), at, a.string(4), a.flag(5));
}

// ---- along a dim, by slices
// (self, dim, index, ...)
Along slices(Args& a, bool wraps, const std::string& message, const char* what = "index") {
  Value x = line(a[0]);
  int dim = a.dim(1, x.rank());
  return {x, checked_index(a, line(a[2]), x.dim(dim), wraps, message, what), dim};
}

Write slice_writer(const Along& at) {
  return [&at](Value target, Value updates, Binary body) {
    return scatter_slices(target, at.index, updates, at.dim, body);
  };
}

// A source with one slice for each index; a 0-d one is one slice of a line.
Value slice_source(Args& a, size_t i, const Along& at) {
  Value source = a[i];
  return source.rank() == at.x.rank() ? source
                                      : shaped(source, with_size(at.x.dims(), at.dim, at.index.numel()));
}

// (self, dim, index)
Value index_select(Args& a) {
  Along at = slices(a, false, "index out of range in self");
  Value result = take(at.x, at.index, at.dim);
  return a.dims(0).empty() ? shaped(result, {}) : result;
}

// (self, dim, index, source, *, alpha)
Value index_add(Args& a) {
  Along at = slices(a, false, "index out of range in self", "runtime");
  Value source = widen(convert(slice_source(a, 3, at), at.x.dtype()));
  if (!a.is_default(4)) source = source * a.scalar_like(4, source);
  return like_arg(a, 0, reduce_into(at.x, source, "add", true, slice_writer(at)));
}

// (self, dim, index, source)
Value index_copy(Args& a) {
  Along at = slices(a, false, "index_copy_(): index out of range in self");
  Value source = convert(slice_source(a, 3, at), at.x.dtype());
  return like_arg(a, 0, scatter_slices(at.x, at.index, source, at.dim, nullptr));
}

// (self, dim, index, value): the slices are marked first, so that the fill is one select.
Value index_fill(Args& a) {
  Along at = slices(a, true, "index out of range in self");
  Value marks = constant(a.program(), Type{DType::kPred, {at.x.dim(at.dim)}}, 0);
  marks = scatter_slices(marks, at.index, constant(a.program(), Type{DType::kPred, at.index.dims()}, 1), 0,
                         nullptr);
  Value fill = broadcast_to(shaped(convert(a[3], at.x.dtype()), {}), at.x.dims());
  return like_arg(a, 0, hlo::select(broadcast_in_dim(marks, at.x.dims(), {at.dim}), fill, at.x));
}

// (self, dim, index, source, reduce, *, include_self)
Value index_reduce(Args& a) {
  Along at = slices(a, false, "index out of range in self");
  return like_arg(a, 0, reduce_into(at.x, slice_source(a, 3, at), a.string(4), a.flag(5), slice_writer(at)));
}

// ---- in the flattened tensor
// (self, index)
Value take_flat(Args& a) {
  Value x = flatten(a[0]);
  return take(x,
              checked_index(a, a[1], x.numel(), true,
                            "out of range: tried to access an index beyond the last element"),
              0);
}

// (self, index, source, accumulate)
Value put(Args& a) {
  Value x = flatten(a[0]);
  Value at = flatten(checked_index(a, a[1], x.numel(), true,
                                   "out of range: tried to access an index beyond the last element"));
  bool accumulate = a.flag(3);
  if (accumulate) x = widen(x);
  Value source = convert(flatten(a[2]), x.dtype());
  return like_arg(a, 0, scatter_slices(x, at, source, 0, accumulate ? body_of("add", x.dtype()) : nullptr));
}

// For each element of a flat mask, how many are set up to it, itself not counted.
Value rank_in_mask(Value mask) {
  Value ones = convert(mask, count_dtype(mask.numel()));
  return scan(ones, zero_of(ones), 0, add) - ones;
}

// (self, mask, source)
Value masked_scatter(Args& a) {
  Dims shape = broadcast_dims(a.dims(0), a.dims(1));
  Value x = broadcast_to(a[0], shape), mask = flatten(broadcast_to(a[1], shape)), source = flatten(a[2]);
  if (x.numel() == 0) return x;
  Value rank = rank_in_mask(mask);
  Value enough = or_(not_(mask), lt(rank, static_cast<double>(source.numel())));
  a.source().require(
      reduce_and(enough, {0}), "runtime",
      "masked_scatter: expected self and source to have enough elements: Number of elements of source < "
      "number of ones in mask");
  if (source.numel() == 0) return x;
  return hlo::select(shaped(mask, shape), shaped(take(source, rank, 0), shape), x);
}

// (grad_output, mask, sizes): the masked gradients, packed; what is left of the source got none.
Value masked_scatter_backward(Args& a) {
  Value mask = flatten(broadcast_to(a[1], a.dims(0))), grad = flatten(a[0]);
  Value packed = constant(a.program(), Type{grad.dtype(), {product(a.ints(2))}}, 0);
  Value nowhere = constant_like(rank_in_mask(mask), static_cast<double>(packed.numel()));  // dropped by XLA
  if (packed.numel() > 0)
    packed = scatter_slices(packed, hlo::select(mask, rank_in_mask(mask), nowhere), grad, 0, nullptr);
  return shaped(packed, a.ints(2));
}

// (self, *, size, fill_value): the first `size` places of nonzero elements, in row-major order.
Value nonzero_static(Args& a) {
  Value x = a[0];
  int rank = x.rank();
  int64_t size = a.integer(1), n = x.numel();
  Type line_of{count_dtype(n), {size}};
  std::vector<Value> columns;
  Value flat = flatten(x);
  Value mask = flat.dtype() == DType::kPred ? flat : ne(flat, zeros_like(flat));
  Value found = constant(a.program(), line_of, -1);
  if (n > 0 && size > 0) {
    Value spot = iota(a.program(), Type{line_of.dtype, {n}}, 0), rank_of = rank_in_mask(mask);
    found =
        scatter_slices(found, hlo::select(mask, rank_of, constant_like(rank_of, static_cast<double>(size))),
                       spot, 0, nullptr);
  }
  Value missing = lt(found, zeros_like(found));
  Value fill = a.scalar_like(2, found);
  int64_t step = n;
  for (int d = 0; d < rank && n > 0; ++d) {
    step /= x.dim(d);
    Value column = remainder(divide(found, constant_like(found, static_cast<double>(step))),
                             constant_like(found, static_cast<double>(x.dim(d))));
    columns.push_back(unsqueeze(hlo::select(missing, fill, column), 1));
  }
  if (columns.empty()) return broadcast_to(unsqueeze(fill, 1), {size, rank});
  return concatenate(columns, 1);
}

}  // namespace

const Table index_table = {
    {"_embedding_bag", embedding_bag},
    {"_embedding_bag_backward", embedding_bag_backward},
    {"_embedding_bag_dense_backward", embedding_bag_dense_backward},
    {"_embedding_bag_forward_only", embedding_bag},
    {"_embedding_bag_per_sample_weights_backward", embedding_bag_weights_backward},
    {"_index_put_impl_", index_put},
    {"_unsafe_index.Tensor", index},
    {"_unsafe_index_put", index_put},
    {"affine_grid_generator", affine_grid},
    {"embedding", embedding},
    {"embedding_dense_backward", embedding_dense_backward},
    {"embedding_renorm", embedding_renorm},
    {"gather", gather_along},
    {"grid_sampler_2d", grid_sampler},
    {"grid_sampler_2d_backward", grid_sampler_backward},
    {"grid_sampler_3d", grid_sampler},
    {"grid_sampler_3d_backward", grid_sampler_backward},
    {"index.Tensor", index},
    {"index_add", index_add},
    {"index_copy", index_copy},
    {"index_fill.int_Scalar", index_fill},
    {"index_fill.int_Tensor", index_fill},
    {"index_put", index_put},
    {"index_reduce", index_reduce},
    {"index_select", index_select},
    {"masked_scatter", masked_scatter},
    {"masked_scatter_backward", masked_scatter_backward},
    {"nonzero_static", nonzero_static},
    {"put", put},
    {"scatter.reduce", scatter_rule(false, true)},
    {"scatter.src", scatter_rule(false, false)},
    {"scatter.value", scatter_rule(true, false)},
    {"scatter.value_reduce", scatter_rule(true, true)},
    {"scatter_add", scatter_add},
    {"scatter_reduce.two", scatter_reduce},
    {"take", take_flat},
};

}  // namespace tpu::lower
