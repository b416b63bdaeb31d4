// SPDX-License-Identifier: Apache-2.0
// Rules of products of Householder reflections.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

Results geqrf(Args& a);              // (self) -> (a, tau)
Value householder_product(Args& a);  // (input, tau)
Value ormqr(Args& a);                // (self, tau, other, left, transpose)

}  // namespace tpu::lower
