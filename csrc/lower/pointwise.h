// SPDX-License-Identifier: Apache-2.0
// Element-wise formulas that several families share.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

Value as_bool(Value x);                // x != 0; NaN is true
Value signbit(Value x);                // kPred; true for -0.0, too
Value copysign(Value x, Value y);      // |x| with the sign of y
Value magnitude(Value x);              // abs for every dtype, unsigned ones included
Value truncate(Value x);               // towards zero; integers unchanged
Value floor_divide(Value x, Value y);  // Python's //
Value modulo(Value x, Value y);        // Python's %
Value pow(Value x, Value y);           // integers wrap; a negative integer exponent gives 0, 1 or -1
Value arc_tangent(Value x);
Value log1p_exp(Value x);  // log(1 + e^x) without overflow
Value infinity_like(Value x);
Value nan_like(Value x);
double finite_max(DType dtype);  // the largest finite number of a floating dtype

}  // namespace tpu::lower
