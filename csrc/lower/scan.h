// SPDX-License-Identifier: Apache-2.0
// Inclusive scans along one dim, in log2(n) shifted steps: XLA:CPU has no scan, and a window of n costs n *
// n.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// Scans xs together. `combine` gets (earlier, later) arrays; `inits` are 0-d neutral elements.
std::vector<Value> scan(std::vector<Value> xs, const std::vector<Value>& inits, int dim,
                        const hlo::Body& combine);
Value scan(Value x, Value init, int dim, hlo::Binary combine);

}  // namespace tpu::lower
