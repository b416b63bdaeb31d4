// SPDX-License-Identifier: Apache-2.0
// Normalization over some dims, as several families need it.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

struct Moments {
  Value mean, variance;  // without the dims; the variance divides by the count
};
Moments moments(Value x, const std::vector<int>& dims);

// x normalized over the dims from `first` on, times weight, plus bias. x is wide already.
Value layer_norm(Value x, int first, std::optional<Value> weight, std::optional<Value> bias, Value eps);

}  // namespace tpu::lower
