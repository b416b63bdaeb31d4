// SPDX-License-Identifier: Apache-2.0
// Entry of the rows into PyTorch's dispatcher.
#pragma once

#include <string>
#include <vector>

namespace tpu::device {

void register_rows();                     // once, when the extension is loaded
std::vector<std::string> useless_rows();  // rows for ops that decompose before they reach the device

}  // namespace tpu::device
