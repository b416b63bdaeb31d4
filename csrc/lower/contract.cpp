// SPDX-License-Identifier: Apache-2.0
// Matrix products as PyTorch computes them.
#include "lower/contract.h"

#include <ATen/Context.h>

#include <algorithm>
#include <numeric>

namespace tpu::lower {

using namespace tpu::hlo;

Precision precision(DType dtype) {
  if (real_of(dtype) != DType::kF32) return Precision::kDefault;
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::HIGHEST:
      return Precision::kHighest;
    case at::Float32MatmulPrecision::HIGH:
      return Precision::kHigh;
    default:
      return Precision::kDefault;
  }
}

static bool listed(const std::vector<int>& list, int dim) {
  return std::find(list.begin(), list.end(), dim) != list.end();
}

// broadcast_in_dim wants the places of x's dims in order.
static Value broadcast_along(Value x, const Dims& dims, const std::vector<int>& places) {
  std::vector<int> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return places[a] < places[b]; });
  std::vector<int> sorted = places;
  std::sort(sorted.begin(), sorted.end());
  return broadcast_in_dim(transpose(x, order), dims, sorted);
}

// The TPU compiler has no dot of 64-bit integers: products of all pairs, summed. It fuses the two, so the
// products are never in memory.
static Value contract_int64(Value x, Value y, const DotDims& dims) {
  std::vector<int> places_x(x.rank()), places_y(y.rank());
  Dims all;
  const auto place = [&](Value v, int dim) {
    all.push_back(v.dim(dim));
    return static_cast<int>(all.size()) - 1;
  };
  for (size_t i = 0; i < dims.lhs_batch.size(); ++i)
    places_x[dims.lhs_batch[i]] = places_y[dims.rhs_batch[i]] = place(x, dims.lhs_batch[i]);
  for (int d = 0; d < x.rank(); ++d)
    if (!listed(dims.lhs_batch, d) && !listed(dims.lhs_contract, d)) places_x[d] = place(x, d);
  for (int d = 0; d < y.rank(); ++d)
    if (!listed(dims.rhs_batch, d) && !listed(dims.rhs_contract, d)) places_y[d] = place(y, d);
  std::vector<int> summed;
  for (size_t i = 0; i < dims.lhs_contract.size(); ++i) {
    summed.push_back(place(x, dims.lhs_contract[i]));
    places_x[dims.lhs_contract[i]] = places_y[dims.rhs_contract[i]] = summed.back();
  }
  return reduce_sum(broadcast_along(x, all, places_x) * broadcast_along(y, all, places_y), summed);
}

// The product of the sizes of the dims that are neither batch dims nor contracted.
static int64_t rows(Value x, const std::vector<int>& batch, const std::vector<int>& contracted) {
  int64_t count = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (!listed(batch, d) && !listed(contracted, d)) count *= x.dim(d);
  return count;
}

// XLA:CPU computes a product of halves with a vector in a loop of its own, up to 16 times slower than its
// library's product with a matrix. So the vector is taken twice; a TPU would fill up to 8 or more rows
// anyway.
static Value contract_row(Value x, Value y, DotDims dims, bool left) {
  Value& row = left ? x : y;
  std::vector<int>& batch = left ? dims.lhs_batch : dims.rhs_batch;
  std::vector<int>& contracted = left ? dims.lhs_contract : dims.rhs_contract;
  int place = row.rank() - 1;
  while (place >= 0 && (listed(batch, place) || listed(contracted, place))) --place;
  const bool bare = place < 0;
  if (bare) {
    row = unsqueeze(row, place = 0);
    for (auto* list : {&batch, &contracted})
      for (int& d : *list) ++d;
  }
  Dims two = row.dims();
  two[place] = 2;
  row = broadcast_to(row, two);
  Value out = dot_general(x, y, dims, precision(x.dtype()), wide(x.dtype()));
  // x's own dims come behind the batch dims, y's last; the doubled one is the last of its operand.
  const auto end = left ? x.rank() - static_cast<int>(dims.lhs_contract.size()) : out.rank();
  out = slice_in_dim(out, 0, 1, 1, end - 1);
  return bare ? squeeze(out, end - 1) : out;
}

Value contract(Value x, Value y, const DotDims& dims) {
  if (wide(x.dtype()) != x.dtype()) {
    const bool row_x = rows(x, dims.lhs_batch, dims.lhs_contract) == 1;
    const bool row_y = rows(y, dims.rhs_batch, dims.rhs_contract) == 1;
    if (row_x != row_y) return contract_row(x, y, dims, row_x);
  }
  if (is_integral(x.dtype()) && byte_width(x.dtype()) == 8) return contract_int64(x, y, dims);
  if (x.dtype() == DType::kPred) return contract(convert(x, DType::kS32), convert(y, DType::kS32), dims);
  return dot_general(x, y, dims, precision(x.dtype()), wide(x.dtype()));
}

Value matmul(Value x, Value y) {
  int rank = x.rank();
  std::vector<int> batch(rank - 2);
  std::iota(batch.begin(), batch.end(), 0);
  return contract(x, y, {batch, batch, {rank - 1}, {rank - 2}});
}

Value linear(Value x, Value y, std::optional<Value> bias) {
  Value product = contract(x, y, {{}, {}, {x.rank() - 1}, {1}});
  return bias ? product + broadcast_to(convert(*bias, product.dtype()), product.dims()) : product;
}

Value transposed(Value x) {
  std::vector<int> order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[x.rank() - 2], order[x.rank() - 1]);
  return transpose(x, order);
}

}  // namespace tpu::lower
