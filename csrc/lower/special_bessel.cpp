// SPDX-License-Identifier: Apache-2.0
// Bessel and Airy functions: a Chebyshev sum near 0, and one of the asymptotic factors far out.
#include <cmath>
#include <limits>

#include "lower/pointwise.h"
#include "lower/special.h"
#include "lower/special_coefficients.h"

namespace tpu::lower {

using namespace tpu::hlo;

Value chebyshev_sum(std::span<const double> coefficients, Value y) {
  // Terms that f32 does not see are left out.
  double negligible = y.dtype() == DType::kF64 ? 0.0 : 1e-9 * std::abs(coefficients[0]);
  size_t n = coefficients.size();
  while (n > 1 && std::abs(coefficients[n - 1]) < negligible) --n;
  Value later = zeros_like(y), next = later, twice = y * 2;
  for (size_t k = n - 1; k > 0; --k) {
    Value sum = twice * next - later + coefficients[k];
    later = next;
    next = sum;
  }
  return y * next - later + coefficients[0];
}

// ---- modified: near is [0, 8] of e^-x I(x), far is sqrt(x) e^-x I(x) in 8 / x

static Value near(Value x, double edge) { return minimum(x, edge); }  // keeps a sum that is not used finite
static Value far(Value x, double edge) { return maximum(x, edge); }

Value i0e(Value x) {
  Value size = abs(x), low = near(size, 8), high = far(size, 8);
  Value inner = chebyshev_sum(kI0eSmall, low / 4 - 1);
  return select(le(size, 8.0), inner, chebyshev_sum(kI0eLarge, 16 / high - 1) / sqrt(high));
}

Value i1e(Value x) {
  Value size = abs(x), low = near(size, 8), high = far(size, 8);
  Value inner = chebyshev_sum(kI1eSmall, low / 4 - 1) * low;
  return copysign(select(le(size, 8.0), inner, chebyshev_sum(kI1eLarge, 16 / high - 1) / sqrt(high)), x);
}

// From the scaled function in halves, so that e^x does not overflow first.
static Value unscaled(Value scaled, Value x) {
  Value half = exponential(abs(x) / 2);
  return half * scaled * half;
}

Value i0(Value x) { return unscaled(i0e(x), x); }
Value i1(Value x) { return unscaled(i1e(x), x); }

// Near is (0, 2], where the logarithm is a term of its own. Infinite at 0, and not defined below.
static Value on_positive(Value x, Value value, Value at_zero) {
  return select(gt(x, 0.0), value, select(eq(x, 0.0), at_zero, nan_like(x)));
}

// K0 or K1 on (0, 2].
static Value k_near(Value x, bool one) {
  Value low = near(x, 2), y = low * low / 2 - 1, logarithm = log(low / 2);
  return one ? chebyshev_sum(kK1Small, y) / low + logarithm * i1(low)
             : chebyshev_sum(kK0Small, y) - logarithm * i0(low);
}

static Value k_far(Value x, bool one) {
  Value high = far(x, 2);
  return (one ? chebyshev_sum(kK1Large, 4 / high - 1) : chebyshev_sum(kK0Large, 4 / high - 1)) / sqrt(high);
}

static Value k_rule(Value x, bool one, bool scaled) {
  Value inner = k_near(x, one), outer = k_far(x, one);
  if (scaled) inner = inner * exponential(near(x, 2));
  if (!scaled) outer = outer * exponential(-far(x, 2));
  return on_positive(x, select(le(x, 2.0), inner, outer), infinity_like(x));
}

Value k0(Value x) { return k_rule(x, false, false); }
Value k1(Value x) { return k_rule(x, true, false); }
Value scaled_k0(Value x) { return k_rule(x, false, true); }
Value scaled_k1(Value x) { return k_rule(x, true, true); }

// ---- first and second kind: near is [0, 8] in (x / 8)^2, far is amplitude and phase

// sqrt(2 / (pi x)) (P cos(t) - Q sin(t)) is J, and with P sin + Q cos it is Y; t = x - (2 n + 1) pi / 4.
static Value oscillation(Value x, int order, bool second_kind) {
  Value high = far(x, 8), z = 8 / high, y = 2 * (z * z) - 1;
  Value p = chebyshev_sum(order ? kP1 : kP0, y);
  Value q = order ? chebyshev_sum(kQ1, y) / high : chebyshev_sum(kQ0, y) / high;
  Value c = cosine(high), s = sine(high);
  Value cos_t = order ? s - c : c + s, sin_t = order ? -(s + c) : s - c;  // times sqrt(2)
  Value wave = second_kind ? p * sin_t + q * cos_t : p * cos_t - q * sin_t;
  Value amplitude = sqrt(1 / (high * M_PI));
  return amplitude * wave;
}

static Value squared_place(Value low) { return low * low / 32 - 1; }

Value j0(Value x) {
  Value size = abs(x);
  Value inner = chebyshev_sum(kJ0Small, squared_place(near(size, 8)));
  return select(le(size, 8.0), inner, oscillation(size, 0, false));
}

Value j1(Value x) {
  Value size = abs(x), low = near(size, 8);
  Value inner = chebyshev_sum(kJ1Small, squared_place(low)) * low;
  Value result = select(le(size, 8.0), inner, oscillation(size, 1, false));
  return select(lt(x, 0.0), -result, result);
}

Value y0(Value x) {
  Value low = near(x, 8);
  Value inner = chebyshev_sum(kY0Small, squared_place(low)) + M_2_PI * log(low) * j0(low);
  return on_positive(x, select(le(x, 8.0), inner, oscillation(x, 0, true)), -infinity_like(x));
}

Value y1(Value x) {
  Value low = near(x, 8);
  Value inner = chebyshev_sum(kY1Small, squared_place(low)) * low + M_2_PI * (log(low) * j1(low) - 1 / low);
  return on_positive(x, select(le(x, 8.0), inner, oscillation(x, 1, true)), -infinity_like(x));
}

Value spherical_j0(Value x) {
  Value value = select(eq(x, 0.0), ones_like(x), sine(x) / x);
  return select(eq(abs(x), infinity_like(x)), zeros_like(x), value);
}

// ---- Airy: [-5, 2] directly; beyond, the factors of zeta = 2/3 |x|^1.5

Value airy_ai(Value x) {
  constexpr double kZeta2 = 1.8856180831641267, kZeta5 = 7.4535599249992990, kSqrtPi = 2 / M_2_SQRTPI;
  Value middle = chebyshev_sum(kAiryMiddle, (minimum(maximum(x, -5.0), 2.0) * 2 + 3) / 7);
  auto zeta_of = [](Value size) { return size * sqrt(size) * (2.0 / 3); };

  Value right = far(x, 2), zeta = zeta_of(right);
  Value decay = chebyshev_sum(kAiryPositive, 2 * kZeta2 / zeta - 1) * exponential(-zeta) /
                (2 * kSqrtPi * sqrt(sqrt(right)));

  Value left = far(-x, 5), phase = zeta_of(left), z = kZeta5 / phase, y = 2 * (z * z) - 1;
  Value t = phase - M_PI_4;
  Value wave = chebyshev_sum(kAiryP, y) * cosine(t) + chebyshev_sum(kAiryQ, y) / phase * sine(t);
  wave = wave / (kSqrtPi * sqrt(sqrt(left)));

  Value result = select(gt(x, 2.0), decay, select(lt(x, -5.0), wave, middle));
  return select(eq(abs(x), infinity_like(x)), nan_like(x), result);
}

}  // namespace tpu::lower
