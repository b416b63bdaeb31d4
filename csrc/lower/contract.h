// SPDX-License-Identifier: Apache-2.0
// Matrix products as PyTorch computes them: halves accumulate in f32, f32 follows the precision that the user
// set.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// torch.get_float32_matmul_precision() for f32 and complex of f32; the default for all other dtypes.
hlo::Precision precision(DType dtype);
// dot_general of two values of one dtype. The result of halves is f32, that of bools is s32.
Value contract(Value x, Value y, const hlo::DotDims& dims);
// x [..., m, k] times y [..., k, n] with equal leading dims.
Value matmul(Value x, Value y);
// x [..., k] times the transpose of y [n, k], plus a bias [n] if there is one.
Value linear(Value x, Value y, std::optional<Value> bias);
// Swaps the last two dims.
Value transposed(Value x);

}  // namespace tpu::lower
