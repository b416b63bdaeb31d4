// SPDX-License-Identifier: Apache-2.0
// The element-wise formulas that several families share.
#include <limits>

#include "lower/pointwise.h"

namespace tpu::lower {

using namespace tpu::hlo;

Value as_bool(Value x) { return x.dtype() == DType::kPred ? x : ne(x, zeros_like(x)); }

Value signbit(Value x) {
  if (is_unsigned(x.dtype())) return constant(x.program(), {DType::kPred, x.dims()}, 0);
  if (is_integral(x.dtype())) return lt(x, zeros_like(x));
  // The sign survives rounding to f32, and a TPU has no bits of an f64.
  Value bits = bitcast_convert(convert(x, DType::kF32), DType::kS32);
  return lt(bits, zeros_like(bits));
}

Value copysign(Value x, Value y) {
  Value size = abs(x);
  return select(signbit(y), -size, size);
}

Value magnitude(Value x) { return is_unsigned(x.dtype()) ? x : abs(x); }

Value truncate(Value x) {
  if (!is_floating(x.dtype())) return x;
  return select(lt(x, zeros_like(x)), ceil(x), floor(x));
}

// XLA:CPU mixes up the elements of long arrays where the second operand of atan2 is a constant, as in
// chlo.atan.
Value arc_tangent(Value x) {
  if (is_complex(x.dtype())) return atan(x);
  Value one = ones_like(x);
  return atan2(maximum(minimum(x, one), -one), minimum(one / abs(x), one));
}

// Where a truncated division must go one further down: a remainder that has not the sign of the divisor.
static Value needs_floor(Value rest, Value y) {
  Value zero = zeros_like(y);
  return ne(rest, zero) & (lt(rest, zero) ^ lt(y, zero));
}

Value floor_divide(Value x, Value y) {
  if (is_unsigned(x.dtype())) return x / y;
  if (is_integral(x.dtype())) {
    Value q = x / y;
    return select(needs_floor(x - q * y, y), q - 1, q);
  }
  // By the remainder, because floor(x / y) is one too large where x / y rounds up to an integer.
  Value rest = remainder(x, y);
  Value q = (x - rest) / y;
  q = select(needs_floor(rest, y), q - 1, q);
  Value whole = floor(q);
  whole = select(gt(q - whole, 0.5), whole + 1, whole);
  whole = select(eq(q, 0.0), copysign(zeros_like(q), x / y), whole);
  return select(eq(y, 0.0), x / y, whole);
}

Value modulo(Value x, Value y) {
  Value rest = remainder(x, y);
  if (is_unsigned(x.dtype())) return rest;
  return select(needs_floor(rest, y), rest + y, rest);
}

// By squaring, for as many steps as the largest exponent has bits: XLA's own power looks at the last few bits
// only.
static Value integer_power(Value x, Value y) {
  auto end = while_loop(
      {x, y, ones_like(x)},
      [](const std::vector<Value>& v) { return reduce_or(flatten(ne(v[1], zeros_like(v[1]))), {0}); },
      [](const std::vector<Value>& v) -> std::vector<Value> {
        Value one = ones_like(v[1]), odd = eq(v[1] & one, one);
        return {v[0] * v[0], shift_right_logical(v[1], one), select(odd, v[2] * v[0], v[2])};
      });
  return end[2];
}

Value pow(Value x, Value y) {
  if (x.dtype() == DType::kPred) return x | not_(y);
  if (!is_integral(x.dtype())) return power(x, y);
  if (is_unsigned(x.dtype())) return integer_power(x, y);
  Value zero = zeros_like(x), one = ones_like(x);
  Value odd = ne(y & one, zero);
  Value inverse = select(eq(x, one), one, select(eq(x, -one), select(odd, -one, one), zero));
  return select(lt(y, zero), inverse, integer_power(x, maximum(y, zero)));
}

Value log1p_exp(Value x) { return maximum(x, zeros_like(x)) + log_plus_one(exponential(-abs(x))); }

Value infinity_like(Value x) { return constant_like(x, std::numeric_limits<double>::infinity()); }

Value nan_like(Value x) { return constant_like(x, std::numeric_limits<double>::quiet_NaN()); }

double finite_max(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504.0;
    case DType::kBF16:
      return 0x1.fep127;
    case DType::kF32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace tpu::lower
