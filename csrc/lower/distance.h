// SPDX-License-Identifier: Apache-2.0
// Rules of distances between points.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

Value cdist(Args& a);           // (x1, x2, p, compute_mode)
Value cdist_backward(Args& a);  // (grad, x1, x2, p, cdist)
Value pdist(Args& a);           // (self, p)
Value pdist_backward(Args& a);  // (grad, self, p, pdist)

}  // namespace tpu::lower
