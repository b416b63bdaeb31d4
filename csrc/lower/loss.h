// SPDX-License-Identifier: Apache-2.0
// What the files of the losses share: reductions, and the rules of margin losses.
#pragma once

#include <numeric>

#include "lower/rule.h"

namespace tpu::lower {

inline std::vector<int> all_dims(Value x) {
  std::vector<int> dims(x.rank());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// The loss of each element, reduced as asked: 0: none, 1: mean, 2: sum.
Value reduced(Value loss, int64_t reduction);
// The gradient of `reduced`, for each element of `like`.
Value shared(Value grad, Value like, int64_t reduction);

Results ctc(Args& a);
Value ctc_backward(Args& a);
Value multi_margin(Args& a);                // (self, target, p, margin, weight, reduction)
Value multi_margin_backward(Args& a);       // (grad_output, self, target, p, margin, weight, reduction)
Results multilabel_margin(Args& a);         // (self, target, reduction) -> (output, is_target)
Value multilabel_margin_backward(Args& a);  // (grad_output, self, target, reduction, is_target)

}  // namespace tpu::lower
