// SPDX-License-Identifier: Apache-2.0
// Sorting in PyTorch's order: NaN is larger than all numbers, equal elements stay in their order.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

struct Sorted {
  Value values;
  Value indices;  // kS32 where that is enough
};
Sorted sort_with_indices(Value x, int dim, bool descending);

}  // namespace tpu::lower
