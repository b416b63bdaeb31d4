// SPDX-License-Identifier: Apache-2.0
// Finding places on a staircase: which interval of a sorted row a number falls into.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// How many entries are <= t in each sorted row of `steps` [rows, n]; t is [rows, m], the result kS32.
Value count_up_to(Value steps, Value t);

}  // namespace tpu::lower
