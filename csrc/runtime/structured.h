// SPDX-License-Identifier: Apache-2.0
// PyTorch's C++ meta kernels of common operators. The dispatcher has Python functions in their place: each
// takes 0.1 ms or more, and the first one imports Dynamo (0.6 s).
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/operator_name.h>

namespace tpu::runtime {

// Null for an operator that is not among them.
const c10::KernelFunction* structured_meta(const c10::OperatorName& op);

}  // namespace tpu::runtime
