// SPDX-License-Identifier: Apache-2.0
// The rows of torch.special, and what is made of it.
#include "lower/special.h"

#include <cmath>

#include "lower/pointwise.h"
#include "lower/tables.h"

namespace tpu::lower {

using namespace tpu::hlo;

namespace {

// -x log(x), and -inf below 0.
Value entr(Value x) {
  Value inner = select(gt(x, 0.0), -x * log(x), zeros_like(x));
  return select(is_nan(x), x, select(lt(x, 0.0), -infinity_like(x), inner));
}

// `shifted` polynomials live on [0, 1].
Rule polynomial_rule(Polynomial kind, bool shifted = false) {
  return [kind, shifted](Args& a) {
    auto xs = a.promoted_floating({0, 1});
    return polynomial(kind, shifted ? 2 * xs[0] - 1 : xs[0], xs[1]);
  };
}

// (window_length, periodic, beta, dtype): the last two may be missing in the shorter overloads.
Value kaiser_window(Args& a, size_t dtype) {
  int64_t length = a.integer(0);
  bool periodic = dtype == 1 || a.flag(1);
  DType asked = a.maybe_dtype(dtype).value_or(a.default_float());
  Value k = iota(a.program(), {wide(asked), {length}}, 0);
  if (length < 2) return convert(ones_like(k), asked);
  Value beta = dtype == 3 ? a.scalar_like(2, k) : constant_like(k, 12);
  double half = static_cast<double>(periodic ? length : length - 1) / 2;
  Value x = (k - half) / half;
  return convert(i0(beta * sqrt(maximum(1 - x * x, 0.0))) / i0(beta), asked);
}

}  // namespace

const Table special_table = {
    {"i0", floating(i0)},
    {"igamma", promoted_floating(igamma)},
    {"igammac", promoted_floating(igammac)},
    {"kaiser_window", [](Args& a) { return kaiser_window(a, 1); }, kNoMeta | kKeepsDtype},
    {"kaiser_window.beta", [](Args& a) { return kaiser_window(a, 3); }, kNoMeta | kKeepsDtype},
    {"kaiser_window.periodic", [](Args& a) { return kaiser_window(a, 2); }, kNoMeta | kKeepsDtype},
    {"special_airy_ai", floating(airy_ai)},
    {"special_bessel_j0", floating(j0)},
    {"special_bessel_j1", floating(j1)},
    {"special_bessel_y0", floating(y0)},
    {"special_bessel_y1", floating(y1)},
    {"special_chebyshev_polynomial_t", polynomial_rule(Polynomial::kChebyshevT)},
    {"special_chebyshev_polynomial_u", polynomial_rule(Polynomial::kChebyshevU)},
    {"special_chebyshev_polynomial_v", polynomial_rule(Polynomial::kChebyshevV)},
    {"special_chebyshev_polynomial_w", polynomial_rule(Polynomial::kChebyshevW)},
    {"special_entr", floating(entr)},
    {"special_erfcx", floating(erfcx)},
    {"special_hermite_polynomial_h", polynomial_rule(Polynomial::kHermite)},
    {"special_hermite_polynomial_he", polynomial_rule(Polynomial::kHermiteE)},
    {"special_i0e", floating(i0e)},
    {"special_i1", floating(i1)},
    {"special_i1e", floating(i1e)},
    {"special_laguerre_polynomial_l", polynomial_rule(Polynomial::kLaguerre)},
    {"special_legendre_polynomial_p", polynomial_rule(Polynomial::kLegendre)},
    {"special_log_ndtr", floating(log_ndtr)},
    {"special_modified_bessel_i0", floating(i0)},
    {"special_modified_bessel_i1", floating(i1)},
    {"special_modified_bessel_k0", floating(k0)},
    {"special_modified_bessel_k1", floating(k1)},
    {"special_ndtri", floating(ndtri)},
    {"special_scaled_modified_bessel_k0", floating(scaled_k0)},
    {"special_scaled_modified_bessel_k1", floating(scaled_k1)},
    {"special_shifted_chebyshev_polynomial_t", polynomial_rule(Polynomial::kChebyshevT, true)},
    {"special_shifted_chebyshev_polynomial_u", polynomial_rule(Polynomial::kChebyshevU, true)},
    {"special_shifted_chebyshev_polynomial_v", polynomial_rule(Polynomial::kChebyshevV, true)},
    {"special_shifted_chebyshev_polynomial_w", polynomial_rule(Polynomial::kChebyshevW, true)},
    {"special_spherical_bessel_j0", floating(spherical_j0)},
};

}  // namespace tpu::lower
