// SPDX-License-Identifier: Apache-2.0
// Shorthand over ops.h, so that a lowering reads like the formula it implements.
#pragma once

#include "hlo/ops.h"

namespace tpu::hlo {

inline Value operator+(Value x, Value y) { return add(x, y); }
inline Value operator-(Value x, Value y) { return subtract(x, y); }
inline Value operator*(Value x, Value y) { return multiply(x, y); }
inline Value operator/(Value x, Value y) { return divide(x, y); }
inline Value operator-(Value x) { return negate(x); }
inline Value operator&(Value x, Value y) { return and_(x, y); }
inline Value operator|(Value x, Value y) { return or_(x, y); }
inline Value operator^(Value x, Value y) { return xor_(x, y); }
// A plain number next to a value is a constant of its type. Only for numbers that belong to the formula,
// never the user's.
Value operator+(Value x, double y);
Value operator-(Value x, double y);
Value operator*(Value x, double y);
Value operator/(Value x, double y);
Value operator+(double x, Value y);
Value operator-(double x, Value y);
Value operator*(double x, Value y);
Value operator/(double x, Value y);
Value maximum(Value x, double y);
Value minimum(Value x, double y);

inline Value eq(Value x, Value y) { return compare(x, y, Direction::kEq); }
inline Value ne(Value x, Value y) { return compare(x, y, Direction::kNe); }
inline Value lt(Value x, Value y) { return compare(x, y, Direction::kLt); }
inline Value le(Value x, Value y) { return compare(x, y, Direction::kLe); }
inline Value gt(Value x, Value y) { return compare(x, y, Direction::kGt); }
inline Value ge(Value x, Value y) { return compare(x, y, Direction::kGe); }
Value eq(Value x, double y);
Value ne(Value x, double y);
Value lt(Value x, double y);
Value le(Value x, double y);
Value gt(Value x, double y);
Value ge(Value x, double y);

Value constant_like(Value x, double value);  // a splat of x's type
Value zeros_like(Value x);
Value ones_like(Value x);
Value iota_like(Value x, int dim, DType dtype);  // x's dims, counting along dim
Value lowest(Program& p, DType dtype);           // 0-d: -inf, or the smallest integer
Value highest(Program& p, DType dtype);          // 0-d: +inf, or the largest integer
Value is_nan(Value x);                           // kPred; integers: all false

// NumPy broadcasting: x's dims are aligned at the right. Dims of size 1 stretch.
Value broadcast_to(Value x, const Dims& dims);
Dims broadcast_dims(const Dims& a, const Dims& b);  // raises hlo type_error if they do not match
// Puts a reduced x back next to `like`: dim is where the reduced dims were (x lacks them). x is broadcast
// along them.
Value spread(Value x, Value like, const std::vector<int>& dims);
Value unsqueeze(Value x, int dim);
Value squeeze(Value x, int dim);
Value flatten(Value x);
Value slice_in_dim(Value x, int64_t start, int64_t limit, int64_t step, int dim);

Value reduce_sum(Value x, const std::vector<int>& dims);  // in x's dtype
Value reduce_prod(Value x, const std::vector<int>& dims);
Value reduce_max(Value x, const std::vector<int>& dims);  // NaN wins
Value reduce_min(Value x, const std::vector<int>& dims);
Value reduce_and(Value x, const std::vector<int>& dims);  // kPred
Value reduce_or(Value x, const std::vector<int>& dims);

// f16 and bf16 become f32, others stay: the type in which PyTorch computes ("opmath").
DType wide(DType dtype);
Value widen(Value x);

}  // namespace tpu::hlo
