// SPDX-License-Identifier: Apache-2.0
// Random numbers for rules: drawn from the generator's counter-based stream.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// `generator`: the place of the Generator? argument; kDefaultGenerator if the op has none.
inline constexpr size_t kDefaultGenerator = SIZE_MAX;

Value random_bits(Args& a, size_t generator, Type type);  // of an unsigned integer type
Value uniform(Args& a, size_t generator,
              Type type);  // in [0, 1), all bits of the mantissa random; type is a float's
Value uniform_open(Args& a, size_t generator, Type type);  // in (0, 1)
Value normal(Args& a, size_t generator, Type type);        // mean 0, deviation 1

}  // namespace tpu::lower
