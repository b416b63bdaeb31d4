// SPDX-License-Identifier: Apache-2.0
// What the files of the pools share.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// Of a max pool: the greatest values, and where they are in their plane (the last n dims, flat, kS32).
struct Winner {
  Value value, index;
};
Winner each_place(Value x, size_t n);  // x itself: each place is its own winner

// Writes x (with `indices`, flat within a plane of the last n dims) into zeros of `dims`.
Value scatter_planes(Value x, Value indices, const Dims& dims, size_t n, hlo::Binary body);

// Rules over the last n dims.
Rule adaptive_avg_pool(size_t n);
Rule adaptive_avg_pool_backward(size_t n);
Rule adaptive_max_pool(size_t n);
Rule fractional_max_pool(size_t n);
Rule max_unpool(size_t n);
Rule pool_backward_by_index(size_t n, size_t indices);  // (grad_output, self, .., indices, ..)

}  // namespace tpu::lower
