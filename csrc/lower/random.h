// SPDX-License-Identifier: Apache-2.0
// Random numbers for rules: drawn from the generator's counter-based stream.
#pragma once

#include <utility>

#include "lower/rule.h"

namespace tpu::lower {

// `generator`: the place of the Generator? argument; kDefaultGenerator if the op has none.
inline constexpr size_t kDefaultGenerator = SIZE_MAX;

Value random_bits(Args& a, size_t generator, Type type);  // kU32 or kU64
// Of kF32 or kF64, from 24 or 53 bits; other floats are computed in kF32.
Value uniform(Args& a, size_t generator, Type type);           // in [0, 1)
Value normal(Args& a, size_t generator, Type type);            // mean 0, deviation 1
Value exponential_draw(Args& a, size_t generator, Type type);  // mean 1, never 0

// The maps from bits behind them: of kF32 for kU32, of kF64 for kU64.
Value uniform_from_bits(Value bits);
Value positive_from_bits(Value bits);  // in (0, 1), fine near 0
Value normal_from_bits(Value bits);

// Rules that draw by rejection (random_rejection.cpp).
Value binomial(Args& a);
Value poisson(Args& a);
Value sample_dirichlet(Args& a);
Value standard_gamma(Args& a);

}  // namespace tpu::lower
