// SPDX-License-Identifier: Apache-2.0
// Special functions that iterate on all elements until the last one is done.
#include <cmath>

#include "lower/pointwise.h"
#include "lower/special.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

constexpr double kMaxSteps = 2000;

Value any(Value p) { return reduce_or(flatten(p), {0}); }

constexpr double kEpsilon = 0x1p-53, kTiny = 1e-300;

// x^a e^-x / gamma(a)
Value gamma_density(Value a, Value x) { return exponential(a * log(x) - x - lgamma(a)); }

// P(a, x) by its power series: right for x up to about a.
Value lower_series(Value a, Value x) {
  Value one = ones_like(x), count = constant(x.program(), {x.dtype(), {}}, 0);
  // carried: count, x, a + n, term, sum
  auto end = while_loop(
      {count, x, a, one, one},
      [&](const std::vector<Value>& v) { return lt(v[0], kMaxSteps) & any(gt(v[3], v[4] * kEpsilon)); },
      [](const std::vector<Value>& v) -> std::vector<Value> {
        Value r = v[2] + 1, term = v[3] * (v[1] / r);
        return {v[0] + 1, v[1], r, term, v[4] + term};
      });
  return end[4] * gamma_density(a, x) / a;
}

// Q(a, x) by its continued fraction (Lentz): right for x above 1 and a.
Value upper_fraction(Value a, Value x) {
  auto away_from_zero = [](Value v) { return select(lt(abs(v), kTiny), constant_like(v, kTiny), v); };
  Value b = x + 1 - a, d = 1 / away_from_zero(b), count = constant(x.program(), {x.dtype(), {}}, 0);
  // carried: count, a, b, c, d, product, last factor
  auto end = while_loop(
      {count, a, b, constant_like(x, 1 / kTiny), d, d, constant_like(x, 2)},
      [&](const std::vector<Value>& v) { return lt(v[0], kMaxSteps) & any(gt(abs(v[6] - 1), 2 * kEpsilon)); },
      [&](const std::vector<Value>& v) -> std::vector<Value> {
        Value n = v[0] + 1, i = broadcast_to(n, v[1].dims());
        Value an = i * (v[1] - i), b = v[2] + 2;
        Value d = 1 / away_from_zero(an * v[4] + b), c = away_from_zero(b + an / v[3]);
        Value factor = c * d;
        return {n, v[1], b, c, d, v[5] * factor, factor};
      });
  return end[5] * gamma_density(a, x);
}

// Both parts for a large a (Temme): the normal distribution of eta sqrt(a), and the first term of its
// correction.
Value normal_part(Value a, Value x, bool upper) {
  Value mu = (x - a) / a;
  Value eta = copysign(sqrt(maximum((mu - log_plus_one(mu)) * 2, 0.0)), mu);
  Value e = maximum(minimum(eta, 1.0), -1.0);  // beyond, the correction is 0
  Value c0 = -1.0 / 3 + e * (1.0 / 12 + e * (-2.0 / 135 + e * (1.0 / 864 + e / 2835)));
  Value correction = exponential(-0.5 * a * eta * eta) / sqrt(a * (2 * M_PI)) * c0;
  Value z = eta * sqrt(a / 2);
  return upper ? erfc(z) / 2 + correction : erfc(-z) / 2 - correction;
}

// In f64: the density is the exponential of a difference of large numbers.
Value gamma_part(Value a, Value x, bool upper) {
  a = convert(a, DType::kF64);
  x = convert(x, DType::kF64);
  Value inf = infinity_like(x), zero = zeros_like(x), one = ones_like(x);
  Value regular = gt(a, 0.0) & gt(x, 0.0) & lt(a, inf) & lt(x, inf);
  Value by_series = le(x, maximum(a, 1.0));
  // The elements of the other methods iterate on harmless numbers.
  Value is_large = gt(a, 1e4);
  Value series = regular & not_(is_large) & by_series, fraction = regular & not_(is_large) & not_(by_series);
  Value p = lower_series(select(series, a, one), select(series, x, one));
  Value q = upper_fraction(select(fraction, a, one), select(fraction, x, one * 2));
  Value inner = upper ? select(by_series, 1 - p, q) : select(by_series, p, 1 - q);
  inner = select(is_large, normal_part(a, x, upper), inner);
  // At the edges: P is 0 for x = 0 and a = inf, and 1 for a = 0 and x = inf.
  Value low = upper ? one : zero, high = upper ? zero : one, nan = nan_like(x);
  Value is_low = eq(x, zero) | eq(a, inf), is_high = eq(a, zero) | eq(x, inf);
  Value edge = select(is_low & is_high, nan, select(is_low, low, high));
  Value invalid = lt(a, 0.0) | lt(x, 0.0) | is_nan(a) | is_nan(x);
  return select(invalid, nan, select(regular, inner, edge));
}

}  // namespace

Value igamma(Value a, Value x) { return convert(gamma_part(a, x, false), x.dtype()); }
Value igammac(Value a, Value x) { return convert(gamma_part(a, x, true), x.dtype()); }

// hlo::zeta wants q > 0: whole s are brought there term by term. Other s have no value below 0, and q = 0,
// -1, ... are poles.
Value hurwitz_zeta(Value s, Value q) {
  Value zero = zeros_like(q), whole = eq(s, floor(s)) & gt(s, 1.0), pole = le(q, 0.0) & eq(q, floor(q));
  Value shifts = whole & not_(pole) & lt(q, 0.0);
  Value count = constant(q.program(), {q.dtype(), {}}, 0);
  // carried: count, s, q, sum
  auto end = while_loop(
      {count, s, select(shifts, q, ones_like(q)), zero},
      [](const std::vector<Value>& v) { return lt(v[0], kMaxSteps) & any(lt(v[2], 0.0)); },
      [](const std::vector<Value>& v) -> std::vector<Value> {
        Value below = lt(v[2], 0.0);
        Value term = select(below, power(v[2], -v[1]), zeros_like(v[2]));
        return {v[0] + 1, v[1], select(below, v[2] + 1, v[2]), v[3] + term};
      });
  Value value = zeta(s, select(shifts, end[2], q));
  // With a large s it takes inf times 0, and the first terms are all that counts.
  Value first_terms = power(q, -s) + power(q + 1, -s) + power(q + 2, -s);
  value = end[3] + select(is_nan(value), first_terms, value);
  return select(lt(s, 1.0), nan_like(s), select(pole, infinity_like(s), value));
}

namespace {

Value first_degree(Polynomial kind, Value x) {
  switch (kind) {
    case Polynomial::kChebyshevU:
    case Polynomial::kHermite:
      return 2 * x;
    case Polynomial::kChebyshevV:
      return 2 * x - 1;
    case Polynomial::kChebyshevW:
      return 2 * x + 1;
    case Polynomial::kLaguerre:
      return 1 - x;
    default:
      return x;
  }
}

// p(k + 1) from p = p(k) and q = p(k - 1).
Value next_degree(Polynomial kind, Value k, Value x, Value p, Value q) {
  switch (kind) {
    case Polynomial::kHermite:
      return 2 * (x * p - k * q);
    case Polynomial::kHermiteE:
      return x * p - k * q;
    case Polynomial::kLaguerre:
      return ((2 * k + 1 - x) * p - k * q) / (k + 1);
    case Polynomial::kLegendre:
      return ((2 * k + 1) * x * p - k * q) / (k + 1);
    default:
      return 2 * x * p - q;
  }
}

}  // namespace

Value polynomial(Polynomial kind, Value x, Value degree) {
  Value n = truncate(degree), one = ones_like(x), first = first_degree(kind, x);
  Value result = select(lt(n, 0.0), zeros_like(x), select(eq(n, 0.0), one, first));
  Value count = constant(x.program(), {x.dtype(), {}}, 1);
  // carried: k, n, x, p(k), p(k - 1), result
  auto end = while_loop(
      {count, n, x, first, one, result},
      [](const std::vector<Value>& v) { return any(lt(broadcast_to(v[0], v[1].dims()), v[1])); },
      [kind](const std::vector<Value>& v) -> std::vector<Value> {
        Value next = next_degree(kind, broadcast_to(v[0], v[1].dims()), v[2], v[3], v[4]);
        Value k = v[0] + 1;
        return {k, v[1], v[2], next, v[3], select(eq(broadcast_to(k, v[1].dims()), v[1]), next, v[5])};
      });
  return end[5];
}

}  // namespace tpu::lower
