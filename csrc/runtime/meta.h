// SPDX-License-Identifier: Apache-2.0
// PyTorch's meta kernels: they raise the errors of bad arguments in PyTorch's own words, and tell the sizes,
// strides and dtypes of results. Asked once for each kind of call (the answer is in the memo).
#pragma once

#include <ATen/core/stack.h>

#include "runtime/memo.h"
#include "runtime/schema.h"

namespace tpu::runtime {

// Fills results and written of `entry`. Not under lock(): meta kernels may be Python.
void ask_meta(const Operator& op, at::ArrayRef<c10::IValue> arguments, MemoEntry& entry);

}  // namespace tpu::runtime
