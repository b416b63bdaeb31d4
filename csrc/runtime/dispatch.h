// SPDX-License-Identifier: Apache-2.0
// One way through the system for every op that has a rule.
//
//   gather the call and its key -> strict, and seen before: run the plan
//                               -> else: ask the meta kernel, run the rule in the open recording, bind the
//                               results,
//                                  and (strict) compile, remember the plan, execute
#pragma once

#include <ATen/core/stack.h>

#include "runtime/schema.h"

namespace tpu::runtime {

// Takes the op's arguments from the stack and puts its results there, like any boxed kernel.
void call_operator(Operator& op, torch::jit::Stack* stack);

// For kernels written by hand that end in an op with a rule.
at::Tensor call_operator(Operator& op, std::vector<c10::IValue> arguments);

}  // namespace tpu::runtime
