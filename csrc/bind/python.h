// SPDX-License-Identifier: Apache-2.0
// The runtime's hooks into the interpreter: lines of Python code for messages, and its lock while waiting.
#pragma once

namespace tpu::bind {

void install_python_hooks();

}  // namespace tpu::bind
