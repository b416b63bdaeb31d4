// SPDX-License-Identifier: Apache-2.0
// Reading and writing at computed places: the few shapes of gather and scatter that the rules need.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// An index tensor made ready: checked at run time against `size` (raises IndexError, or what `what` says),
// negative ones wrapped if allowed, and kS32 where that is enough.
Value checked_index(Args& a, Value index, int64_t size, bool wraps, const std::string& message,
                    const char* what = "index");

// x's slices along dim at `index` (any rank): the dims of index take the place of dim.
Value take(Value x, Value index, int dim);
// torch.gather: element by element along dim. index may be smaller than x in the other dims.
Value take_along(Value x, Value index, int dim);
// Writes slices of `updates` along dim at the places of the line `index`. A null body replaces.
Value scatter_slices(Value x, Value index, Value updates, int dim, hlo::Binary body);
// torch.scatter: element by element along dim; index and updates may be smaller than x in the other dims.
Value scatter_along(Value x, Value index, Value updates, int dim, hlo::Binary body);

}  // namespace tpu::lower
