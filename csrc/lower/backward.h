// SPDX-License-Identifier: Apache-2.0
// What backward ops share.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// Whether element `which` of the bool[] argument `i` (output_mask) asks for that gradient.
inline bool wants(const Args& a, size_t i, size_t which) { return a.ivalue(i).toBoolList().get(which); }

}  // namespace tpu::lower
