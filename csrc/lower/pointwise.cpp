// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic: one row per op; floats of 16 bits are computed in f32.
#include "lower/pointwise.h"

#include <c10/core/Scalar.h>

#include <cmath>

#include "lower/special.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

static Value bool_add(Value x, Value y) { return x.dtype() == DType::kPred ? x | y : x + y; }

static Value bool_multiply(Value x, Value y) { return x.dtype() == DType::kPred ? x & y : x * y; }

// ---- combinators of this family

// Two operands of a common dtype, computed in opmath.
static Rule wide(Value (*f)(Value, Value)) {
  return [f](Args& a) {
    auto xs = a.promoted_wide({0, 1});
    return f(xs[0], xs[1]);
  };
}

// The operands of a product or quotient. As in PyTorch, a number keeps its precision: bf16 * 0.1 multiplies
// by 0.1 in f32.
static std::pair<Value, Value> factors(Args& a, DType common) {
  auto read = [&](size_t i) {
    Value x = a.ivalue(i).isTensor() ? a[i] : a.scalar(i, wide(common));
    return convert(x.rank() == 0 ? x : convert(x, common), wide(common));
  };
  Value x = read(0), y = read(1);
  Dims dims = broadcast_dims(x.dims(), y.dims());
  return {broadcast_to(x, dims), broadcast_to(y, dims)};
}

static Value multiply_rule(Args& a) {
  auto [x, y] = factors(a, a.result_type({0, 1}));
  return bool_multiply(x, y);
}

static Value divide_rule(Args& a) {
  DType common = a.result_type({0, 1});
  auto [x, y] = factors(a, is_floating(common) || is_complex(common) ? common : a.default_float());
  return x / y;
}

static Value floor_divide_rule(Args& a) {
  auto [x, y] = factors(a, a.result_type({0, 1}));
  return floor_divide(x, y);
}

// For ops that do nothing to integers.
static Rule rounding(Value (*f)(Value)) {
  return [f](Args& a) {
    Value x = a[0];
    return is_floating(x.dtype()) ? f(x) : x;
  };
}

// f(x, alpha * y) for the arguments at places x and y; alpha is argument 2, and rounded like any other
// number.
static Rule sum(size_t x, size_t y, Value (*f)(Value, Value)) {
  return [x, y, f](Args& a) {
    auto xs = a.promoted_wide({x, y});
    if (a.is_default(2)) return f(xs[0], xs[1]);
    Value alpha = convert(a.scalar(2, a.result_type({x, y})), xs[1].dtype());
    return f(xs[0], xs[1] * broadcast_to(alpha, xs[1].dims()));
  };
}

static Rule logical(Value (*f)(Value, Value)) {
  return [f](Args& a) {
    Value x = as_bool(a[0]), y = as_bool(a[1]);
    Dims dims = broadcast_dims(x.dims(), y.dims());
    return f(broadcast_to(x, dims), broadcast_to(y, dims));
  };
}

// maximum and minimum where the other operand wins over NaN.
static Rule ignoring_nan(Value (*f)(Value, Value)) {
  return [f](Args& a) {
    auto xs = a.promoted({0, 1});
    return select(is_nan(xs[0]), xs[1], select(is_nan(xs[1]), xs[0], f(xs[0], xs[1])));
  };
}

// ---- single ops

static Value angle(Value x) {
  if (is_complex(x.dtype())) return atan2(imag(x), real(x));
  Value result = select(lt(x, 0.0), constant_like(x, M_PI), zeros_like(x));
  return select(is_nan(x), x, result);
}

// clamp with either bound missing; bounds are Scalars or tensors. NaN of any of them wins.
static Value clamp_rule(Args& a) {
  bool low = a.has(1), high = a.has(2);
  auto xs = low && high ? a.promoted({0, 1, 2}) : low ? a.promoted({0, 1}) : a.promoted({0, 2});
  Value x = xs[0];
  if (low) x = maximum(x, xs[1]);
  return high ? minimum(x, xs.back()) : x;
}

static Value digamma_rule(Value x) { return select(eq(x, 0.0), copysign(infinity_like(x), -x), digamma(x)); }

static Value divide_mode(Args& a) {
  if (!a.has(2)) return divide_rule(a);
  if (a.string(2) == "floor") return floor_divide_rule(a);
  auto xs = a.promoted_wide({0, 1});
  return truncate(convert(xs[0] / xs[1], a.result_type({0, 1})));  // the quotient of halves is rounded first
}

// Mantissa in [0.5, 1) and exponent. Denormals are scaled up first; 0, inf and NaN are their own mantissa.
static Results frexp(Args& a) {
  Value x = widen(a[0]);
  bool is_double = x.dtype() == DType::kF64;
  DType bits_type = is_double ? DType::kS64 : DType::kS32;
  int fraction = is_double ? 52 : 23, bias = is_double ? 1022 : 126;
  Value tiny = lt(abs(x), is_double ? 0x1p-1022 : 0x1p-126);
  Value scaled = select(tiny, x * std::ldexp(1.0, fraction + 1), x);
  Value bits = bitcast_convert(scaled, bits_type);
  auto number = [&](int64_t n) { return constant(x.program(), {bits_type, x.dims()}, n); };
  Value mask = number(int64_t{is_double ? 0x7ff : 0xff} << fraction);
  Value exponent = shift_right_arithmetic(bits & mask, number(fraction)) - number(bias);
  exponent = exponent - select(tiny, number(fraction + 1), number(0));
  Value mantissa = bitcast_convert((bits & not_(mask)) | number(int64_t{bias} << fraction), x.dtype());
  Value special = eq(x, 0.0) | not_(is_finite(x));
  return {select(special, x, mantissa), convert(select(special, number(0), exponent), DType::kS32)};
}

// Euclid's algorithm on all elements until the last one is done.
static Value gcd(Value x, Value y) {
  auto any = [](Value p) {
    std::vector<int> dims(p.rank());
    for (int d = 0; d < p.rank(); ++d) dims[d] = d;
    return dims.empty() ? p : reduce_or(p, dims);
  };
  auto end = while_loop(
      {magnitude(x), magnitude(y)},
      [&](const std::vector<Value>& v) { return any(ne(v[1], zeros_like(v[1]))); },
      [](const std::vector<Value>& v) -> std::vector<Value> {
        Value done = eq(v[1], zeros_like(v[1]));
        Value divisor = select(done, ones_like(v[1]), v[1]);
        return {select(done, v[0], v[1]), select(done, v[1], remainder(v[0], divisor))};
      });
  return end[0];
}

static Value lcm(Value x, Value y) {
  Value g = gcd(x, y);
  Value divisor = select(eq(g, zeros_like(g)), ones_like(g), g);
  return magnitude(x) / divisor * magnitude(y);
}

static Value heaviside(Value x, Value at_zero) {
  return select(eq(x, zeros_like(x)), at_zero, convert(gt(x, zeros_like(x)), x.dtype()));
}

// Scaled by the larger one, so that squares do not overflow.
static Value hypot(Value x, Value y) {
  Value ax = abs(x), ay = abs(y), inf = infinity_like(x);
  Value large = maximum(ax, ay), ratio = minimum(ax, ay) / large;
  Value result = select(eq(large, 0.0), large, large * sqrt(ratio * ratio + 1));
  return select(eq(ax, inf) | eq(ay, inf), inf, result);
}

// From the nearer end, so that lerp(x, y, 1) is y.
static Value lerp(Value x, Value y, Value weight) {
  Value step = y - x;
  return select(lt(abs(weight), 0.5), x + weight * step, y - step * (1 - weight));
}

static Value lerp_rule(Args& a, bool by_tensor) {
  if (by_tensor) {
    auto xs = a.promoted_wide({0, 1, 2});
    return lerp(xs[0], xs[1], xs[2]);
  }
  auto xs = a.promoted_wide({0, 1});
  return lerp(xs[0], xs[1], a.scalar_like(2, xs[0]));
}

// self + value * f(tensor1, tensor2)
static Value add_scaled(Args& a, Value (*f)(Value, Value)) {
  auto xs = a.promoted_wide({0, 1, 2});
  Value factor = a.is_default(3) ? xs[1] : a.scalar_like(3, xs[1]) * xs[1];
  return bool_add(xs[0], f(factor, xs[2]));
}

// log(b^x + b^y) to the base b, which is e or 2.
template <bool kBase2>
static Value log_add_exp(Value x, Value y) {
  constexpr double unit = kBase2 ? M_LN2 : 1.0;
  if (is_complex(x.dtype())) {
    Value swap = lt(real(x), real(y)), large = select(swap, y, x), small = select(swap, x, y);
    return large + log_plus_one(exponential((small - large) * unit)) / unit;
  }
  Value sum = maximum(x, y) + log_plus_one(exponential(abs(x - y) * -unit)) / unit;
  return select(eq(x, y) & eq(abs(x), infinity_like(x)), x, sum);
}

static Value logit(Args& a) {
  Value x = a.floating(0);
  if (a.has(1)) {
    Value eps = a.scalar_like(1, x);
    x = minimum(maximum(x, eps), 1 - eps);
  }
  return log(x / (1 - x));
}

// Replaces NaN, +inf and -inf of a real x; the user's numbers are arguments 1 to 3.
static Value finite(Args& a, Value x) {
  Value inf = infinity_like(x);
  auto number = [&](size_t i, double other) {
    return a.has(i) ? a.scalar_like(i, x) : constant_like(x, other);
  };
  double most = finite_max(x.dtype());
  Value high = select(eq(x, inf), number(2, most), x);
  return select(is_nan(x), number(1, 0.0), select(eq(x, -inf), number(3, -most), high));
}

static Value nan_to_num(Args& a) {
  Value x = a[0];
  if (is_complex(x.dtype())) return complex(finite(a, real(x)), finite(a, imag(x)));
  return is_floating(x.dtype()) ? finite(a, x) : x;
}

// By the reflection formula below 0.5, then six steps up and the asymptotic series.
static Value trigamma(Value x) {
  Value reflected = lt(x, 0.5);
  Value s = sine(x * M_PI);
  Value result = select(reflected, -(M_PI * M_PI) / (s * s), zeros_like(x));
  x = select(reflected, 1 - x, x);
  for (int i = 0; i < 6; ++i) {
    result = result + 1 / (x * x);
    x = x + 1;
  }
  Value r = 1 / (x * x);
  result = result + (1 + 1 / (2 * x) + r * (1.0 / 6 - r * (1.0 / 30 - r * (1.0 / 42)))) / x;
  return select(reflected, -result, result);
}

static Value polygamma_rule(Args& a) {
  Value x = a.floating(1);
  int64_t n = a.integer(0);
  if (n == 0) return digamma_rule(x);
  if (n == 1) return trigamma(x);
  double factor = (n % 2 ? 1.0 : -1.0) * std::tgamma(static_cast<double>(n) + 1);
  return hurwitz_zeta(constant_like(x, static_cast<double>(n) + 1), x) * factor;
}

// The usual exponents need no power. Others stay run-time operands.
static Value pow_scalar(Args& a) {
  auto xs = a.promoted_wide({0, 1});
  Value x = xs[0];
  if (x.dtype() == DType::kPred || a.ivalue(1).isComplexDouble()) return pow(x, xs[1]);
  double exponent = a.ivalue(1).toScalar().toDouble();
  auto is = [&](double n) { return exponent == n && a.constant(1) == n; };
  if (is(0)) return ones_like(x);
  if (is(1)) return x;
  if (is(2)) return x * x;
  if (is(3)) return x * x * x;
  if (!is_integral(x.dtype())) {
    if (is(0.5)) return sqrt(x);
    if (is(-0.5)) return is_complex(x.dtype()) ? 1 / sqrt(x) : rsqrt(x);
    if (is(-1)) return 1 / x;
    if (is(-2)) return 1 / (x * x);
  }
  return pow(x, xs[1]);
}

static Value round_decimals(Args& a) {
  Value x = a[0];
  if (!is_floating(x.dtype())) return x;
  x = widen(x);
  int64_t decimals = a.integer(1);
  double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  if (decimals == 0) return round_nearest_even(x);
  return decimals > 0 ? round_nearest_even(x * scale) / scale : round_nearest_even(x / scale) * scale;
}

// NaN has sign 0 in PyTorch, -0.0 has 0.0.
static Value sign_rule(Value x) {
  if (x.dtype() == DType::kPred) return x;
  if (is_complex(x.dtype())) return sign(x);
  Value zero = zeros_like(x);
  Value positive = convert(gt(x, zero), x.dtype());
  return is_unsigned(x.dtype()) ? positive : positive - convert(lt(x, zero), x.dtype());
}

static Value sinc(Value x) {
  Value y = x * M_PI;
  return select(eq(x, zeros_like(x)), ones_like(x), sine(y) / y);
}

static Value where_rule(Args& a) {
  auto xs = a.promoted({1, 2});
  Value condition = as_bool(a[0]);
  Dims dims = broadcast_dims(condition.dims(), xs[0].dims());
  return select(broadcast_to(condition, dims), broadcast_to(xs[0], dims), broadcast_to(xs[1], dims));
}

// x * f(y), but 0 where x is 0; a NaN of y wins.
template <Value (*f)(Value)>
static Value x_times(Value x, Value y) {
  return select(is_nan(y), y, select(eq(x, 0.0), zeros_like(x), x * f(y)));
}

// Beyond the width, XLA shifts in zeros or the sign, as PyTorch does; a negative shift counts as beyond.
static Value right_shift(Value x, Value y) {
  return is_unsigned(x.dtype()) ? shift_right_logical(x, y) : shift_right_arithmetic(x, y);
}

static Value conj_rule(Value x) { return is_complex(x.dtype()) ? conj(x) : x; }
static Value fraction(Value x) { return x - truncate(x); }
static Value inverse(Value x) { return 1 / x; }
static Value inverse_sqrt(Value x) { return is_complex(x.dtype()) ? 1 / sqrt(x) : rsqrt(x); }
static Value log10(Value x) { return log(x) / M_LN10; }
static Value log2(Value x) { return log(x) / M_LN2; }
static Value logical_not(Value x) { return not_(as_bool(x)); }
static Value power_of_2(Value x) { return power(constant_like(x, 2), x); }
static Value relu(Value x) { return maximum(x, zeros_like(x)); }

// ---- the table

// (self, p): the sum of lgamma(self - k / 2) for k < p, and p (p - 1) / 4 times log(pi).
static Value multivariate_lgamma(Args& a) {
  Value x = a.floating(0);
  int64_t p = a.integer(1);
  Value sum = lgamma(x);
  for (int64_t k = 1; k < p; ++k) sum = sum + lgamma(x - 0.5 * static_cast<double>(k));
  return sum + 0.25 * static_cast<double>(p * (p - 1)) * std::log(M_PI);
}

const Table pointwise_table = {
    {"__lshift__.Scalar", promoted(shift_left)},
    {"__lshift__.Tensor", promoted(shift_left)},
    {"__rshift__.Scalar", promoted(right_shift)},
    {"__rshift__.Tensor", promoted(right_shift)},
    {"_conj_physical", unary(conj_rule)},
    {"abs", unary(magnitude)},
    {"acos", floating(acos)},
    {"acosh", floating(acosh)},
    {"add.Tensor", sum(0, 1, bool_add)},
    {"addcdiv", [](Args& a) { return add_scaled(a, divide); }},
    {"addcmul", [](Args& a) { return add_scaled(a, bool_multiply); }},
    {"angle", floating(angle)},
    {"asin", floating(asin)},
    {"asinh", floating(asinh)},
    {"atan", floating(arc_tangent)},
    {"atan2", promoted_floating(atan2)},
    {"atanh", floating(atanh)},
    {"bitwise_and.Tensor", promoted(and_)},
    {"bitwise_left_shift.Tensor", promoted(shift_left)},
    {"bitwise_not", unary(not_)},
    {"bitwise_or.Tensor", promoted(or_)},
    {"bitwise_right_shift.Tensor", promoted(right_shift)},
    {"bitwise_xor.Tensor", promoted(xor_)},
    {"ceil", rounding(ceil)},
    {"clamp", clamp_rule},
    {"clamp.Tensor", clamp_rule},
    {"clamp_max", promoted(minimum)},
    {"clamp_max.Tensor", promoted(minimum)},
    {"clamp_min", promoted(maximum)},
    {"clamp_min.Tensor", promoted(maximum)},
    {"conj_physical", unary(conj_rule)},
    {"copysign.Tensor", promoted_floating(copysign)},
    {"cos", floating(cosine)},
    {"cosh", floating(cosh)},
    {"digamma", floating(digamma_rule)},
    {"div.Tensor", divide_rule},
    {"div.Tensor_mode", divide_mode},
    {"erf", floating(erf)},
    {"erfc", floating(erfc)},
    {"erfinv", floating(erf_inv)},
    {"exp", floating(exponential)},
    {"exp2", floating(power_of_2)},
    {"expm1", floating(exponential_minus_one)},
    {"floor", rounding(floor)},
    {"floor_divide", floor_divide_rule},
    {"fmax", ignoring_nan(maximum)},
    {"fmin", ignoring_nan(minimum)},
    {"fmod.Tensor", wide(remainder)},
    {"frac", rounding(fraction)},
    {"frexp.Tensor", frexp},
    {"gcd", promoted(gcd)},
    {"heaviside", promoted(heaviside)},
    {"hypot", wide(hypot)},
    {"lcm", promoted(lcm)},
    {"lerp.Scalar", [](Args& a) { return lerp_rule(a, false); }},
    {"lerp.Tensor", [](Args& a) { return lerp_rule(a, true); }},
    {"lgamma", floating(lgamma)},
    {"log", floating(log)},
    {"log10", floating(log10)},
    {"log1p", floating(log_plus_one)},
    {"log2", floating(log2)},
    {"logaddexp", promoted_floating(log_add_exp<false>)},
    {"logaddexp2", promoted_floating(log_add_exp<true>)},
    {"logical_and", logical(and_)},
    {"logical_not", unary(logical_not)},
    {"logical_or", logical(or_)},
    {"logical_xor", logical(xor_)},
    {"logit", logit},
    {"maximum", promoted(maximum)},
    {"minimum", promoted(minimum)},
    {"mul.Tensor", multiply_rule},
    {"mvlgamma", multivariate_lgamma},
    {"nan_to_num", nan_to_num},
    {"neg", unary(negate)},
    {"nextafter", promoted(next_after)},
    {"polygamma", polygamma_rule},
    {"pow.Scalar", wide(pow)},
    {"pow.Tensor_Scalar", pow_scalar},
    {"pow.Tensor_Tensor", wide(pow)},
    {"reciprocal", floating(inverse)},
    {"relu", unary(relu)},
    {"remainder.Scalar_Tensor", wide(modulo)},
    {"remainder.Tensor", wide(modulo)},
    {"round", rounding(round_nearest_even)},
    {"round.decimals", round_decimals},
    {"rsqrt", floating(inverse_sqrt)},
    {"rsub.Tensor", sum(1, 0, subtract)},
    {"sgn", unary(sign_rule)},
    {"sigmoid", floating(logistic)},
    {"sign", unary(sign_rule)},
    {"signbit", unary(signbit)},
    {"sin", floating(sine)},
    {"sinc", floating(sinc)},
    {"sinh", floating(sinh)},
    {"special_xlog1py", promoted_floating(x_times<log_plus_one>)},
    {"special_zeta", promoted_floating(hurwitz_zeta)},
    {"sqrt", floating(sqrt)},
    {"sub.Tensor", sum(0, 1, subtract)},
    {"tan", floating(tan)},
    {"tanh", floating(tanh)},
    {"trunc", rounding(truncate)},
    {"where.self", where_rule},
    {"xlogy.Tensor", promoted_floating(x_times<log>)},
};

}  // namespace tpu::lower
