// SPDX-License-Identifier: Apache-2.0
// Reductions that look at the order of the elements, or count equal ones.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// Raises IndexError for an extent of 0 along dim: there is no element to choose.
void check_extent(const char* name, Value x, int dim);

Value hash_tensor(Args& a);
Results kthvalue(Args& a);
Results mode(Args& a);
Rule median(bool skips_nan);
Rule median_along(bool skips_nan);

// How often each of 0 .. bins-1 occurs in the line `bin` (kS32); others are not counted.
Value count_each(Value bin, int64_t bins);

}  // namespace tpu::lower
