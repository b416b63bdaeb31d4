// SPDX-License-Identifier: Apache-2.0
// Matrix products as PyTorch computes them.
#include "lower/contract.h"

#include <ATen/Context.h>

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

Value contract(Value x, Value y, const DotDims& dims) {
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
