// SPDX-License-Identifier: Apache-2.0
// Special functions that StableHLO lacks, of f32 and f64.
#pragma once

#include <span>

#include "lower/rule.h"

namespace tpu::lower {

// ---- Bessel and Airy functions (special_bessel.cpp)
Value i0(Value x);
Value i0e(Value x);
Value i1(Value x);
Value i1e(Value x);
Value scaled_k0(Value x);  // e^x K0(x)
Value scaled_k1(Value x);
Value k0(Value x);
Value k1(Value x);
Value j0(Value x);
Value j1(Value x);
Value y0(Value x);
Value y1(Value x);
Value spherical_j0(Value x);
Value airy_ai(Value x);

// ---- of the normal distribution (special_normal.cpp)
Value erfcx(Value x);     // e^(x*x) erfc(x)
Value log_ndtr(Value x);  // log of the distribution function
Value ndtri(Value p);     // its inverse

// ---- iterated ones (special_iterated.cpp)
Value igamma(Value a, Value x);   // regularized, lower
Value igammac(Value a, Value x);  // ... and upper
Value hurwitz_zeta(Value s, Value q);

// Orthogonal polynomials by recurrence: p(k + 1) from p(k) and p(k - 1).
enum class Polynomial {
  kChebyshevT,
  kChebyshevU,
  kChebyshevV,
  kChebyshevW,
  kHermite,
  kHermiteE,
  kLaguerre,
  kLegendre
};
Value polynomial(Polynomial kind, Value x, Value degree);

// Sum of coefficients[k] T_k(y), for y in [-1, 1].
Value chebyshev_sum(std::span<const double> coefficients, Value y);

}  // namespace tpu::lower
