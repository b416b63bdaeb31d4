// SPDX-License-Identifier: Apache-2.0
// Sliding windows as tensors.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

Value im2col(Args& a);
Value col2im(Args& a);
Value unfold_backward(Args& a);

}  // namespace tpu::lower
