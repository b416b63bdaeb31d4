// SPDX-License-Identifier: Apache-2.0
// The exact GELU, as fused layers need it next to the op itself.
#pragma once

#include "hlo/math.h"

namespace tpu::lower {

inline hlo::Value gelu(hlo::Value x) {
  using namespace hlo;
  constexpr double kSqrtHalf = 0.70710678118654752440;
  return 0.5 * x * (1.0 + erf(x * kSqrtHalf));
}

}  // namespace tpu::lower
