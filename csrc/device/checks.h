// SPDX-License-Identifier: Apache-2.0
// Argument checks which PyTorch's kernels for the CPU make and its meta kernels do not; and those of run-time
// operands, which a remembered call would not make again.
#pragma once

#include <ATen/core/ivalue.h>

namespace tpu::device {

using Check = void (*)(at::ArrayRef<c10::IValue> arguments);

// The check for all overloads that a row serves, or null.
Check check_of(const char* row);

}  // namespace tpu::device
