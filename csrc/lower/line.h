// SPDX-License-Identifier: Apache-2.0
// Small shape helpers of rules that work along dims. PyTorch lets a 0-d tensor have a dim 0: here it becomes
// a line.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

inline Value line(Value x) { return x.rank() == 0 ? hlo::reshape(x, {1}) : x; }

inline Dims with_size(Dims dims, int dim, int64_t size) {
  dims[dim] = size;
  return dims;
}

inline Value shaped(Value x, const Dims& dims) { return x.dims() == dims ? x : hlo::reshape(x, dims); }

inline Value cut(Value x, int dim, int64_t start, int64_t limit) {
  return start == 0 && limit == x.dim(dim) ? x : hlo::slice_in_dim(x, start, limit, 1, dim);
}

// Puts x among `size` places of `fill` along dim: its first element at `start` (may be negative), the others
// `step` apart.
inline Value place(Value x, Value fill, int dim, int64_t size, int64_t start, int64_t step = 1) {
  Dims low(x.rank(), 0), high(x.rank(), 0), interior(x.rank(), 0);
  int64_t n = x.dim(dim);
  low[dim] = start;
  interior[dim] = step - 1;
  high[dim] = size - start - (n == 0 ? 0 : (n - 1) * step + 1);
  return hlo::pad(x, fill, low, high, interior);
}

inline Value zero_of(Value x) { return hlo::constant(x.program(), Type{x.dtype(), {}}, 0); }

// Moves dim `from` to `to`, as torch.movedim.
inline Value move_dim(Value x, int from, int to) {
  if (from == to) return x;
  std::vector<int> order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != from) order.push_back(i);
  order.insert(order.begin() + to, from);
  return hlo::transpose(x, order);
}

// A number of elements, in x's dtype and dims. It stands in the program as an integer, so that programs for
// other sizes can be told to differ in just that (hlo/skeleton.h).
inline Value number_like(Value x, int64_t n) {
  if (n >= int64_t{1} << 31) return hlo::constant(x.program(), x.type(), static_cast<double>(n));
  Value number = hlo::constant(x.program(), Type{DType::kS32, {}}, n);
  return hlo::broadcast_in_dim(hlo::convert(number, x.dtype()), x.dims(), {});
}

// The dtype that counts up to `size` most cheaply: TPUs have no 64-bit integers of their own.
inline DType count_dtype(int64_t size) { return size < (int64_t{1} << 31) ? DType::kS32 : DType::kS64; }

}  // namespace tpu::lower
