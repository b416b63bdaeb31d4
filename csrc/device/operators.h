// SPDX-License-Identifier: Apache-2.0
// The operators that rows serve, by name.
#pragma once

#include "runtime/dispatch.h"

namespace tpu::device {

// The operator of an overload ("add.Tensor"); null if no row serves it.
runtime::Operator* find_operator(const std::string& overload);
const std::vector<runtime::Operator*>& operators();

}  // namespace tpu::device
