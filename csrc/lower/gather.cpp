// SPDX-License-Identifier: Apache-2.0
// Reading and writing at computed places.
#include "lower/gather.h"

#include "lower/line.h"

namespace tpu::lower {

using namespace tpu::hlo;

Value checked_index(Args& a, Value index, int64_t size, bool wraps, const std::string& message,
                    const char* what) {
  if (!is_integral(index.dtype()) || byte_width(index.dtype()) < 4) index = convert(index, DType::kS32);
  if (index.numel() == 0) return convert(index, count_dtype(size));
  auto bound = [&](int64_t n) { return constant(index.program(), index.type(), n); };
  Value inside = and_(ge(index, bound(wraps ? -size : 0)), lt(index, bound(size)));
  std::vector<int> all(index.rank());
  for (int i = 0; i < index.rank(); ++i) all[i] = i;
  a.source().require(all.empty() ? inside : reduce_and(inside, all), what, message);
  if (wraps) index = hlo::select(lt(index, bound(0)), index + bound(size), index);
  return convert(index, count_dtype(size));
}

Value take(Value x, Value index, int dim) {
  GatherDims dims{.collapsed_slice_dims = {dim}, .start_index_map = {dim}, .index_vector_dim = index.rank()};
  Dims result = x.dims();
  result.erase(result.begin() + dim);
  result.insert(result.begin() + dim, index.dims().begin(), index.dims().end());
  if (product(result) == 0) return constant(x.program(), Type{x.dtype(), result}, 0);
  for (int i = 0; i < x.rank(); ++i)
    if (i != dim) dims.offset_dims.push_back(i < dim ? i : i - 1 + index.rank());
  return gather(x, index, dims, with_size(x.dims(), dim, 1));
}

namespace {

std::vector<int> all_but(int rank, int dim) {
  std::vector<int> others;
  for (int i = 0; i < rank; ++i)
    if (i != dim) others.push_back(i);
  return others;
}

// The front corner of x that has the sizes `dims`, but for `dim`, which stays whole.
Value corner(Value x, Dims dims, int dim) {
  if (dim >= 0) dims[dim] = x.dim(dim);
  return x.dims() == dims ? x : slice(x, Dims(dims.size(), 0), dims);
}

}  // namespace

Value take_along(Value x, Value index, int dim) {
  if (index.numel() == 0) return constant(x.program(), Type{x.dtype(), index.dims()}, 0);
  auto others = all_but(x.rank(), dim);
  GatherDims dims{.collapsed_slice_dims = {dim},
                  .operand_batching_dims = others,
                  .start_indices_batching_dims = others,
                  .start_index_map = {dim},
                  .index_vector_dim = index.rank()};
  return gather(corner(x, index.dims(), dim), index, dims, Dims(x.rank(), 1));
}

Value scatter_slices(Value x, Value index, Value updates, int dim, Binary body) {
  if (updates.numel() == 0) return x;
  ScatterDims dims{.update_window_dims = all_but(x.rank(), dim),
                   .inserted_window_dims = {dim},
                   .scatter_dims_to_operand_dims = {dim},
                   .index_vector_dim = 1};
  return scatter(x, index, updates, dims, body);
}

Value scatter_along(Value x, Value index, Value updates, int dim, Binary body) {
  if (index.numel() == 0) return x;
  auto others = all_but(x.rank(), dim);
  ScatterDims dims{.inserted_window_dims = {dim},
                   .input_batching_dims = others,
                   .scatter_indices_batching_dims = others,
                   .scatter_dims_to_operand_dims = {dim},
                   .index_vector_dim = index.rank()};
  Value part = corner(x, index.dims(), dim);
  Value written = scatter(part, index, corner(updates, index.dims(), -1), dims, body);
  if (part == x) return written;
  std::vector<Value> origin(x.rank(), constant(x.program(), Type{DType::kS32, {}}, 0));
  return dynamic_update_slice(x, written, origin);
}

}  // namespace tpu::lower
