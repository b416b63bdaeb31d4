// SPDX-License-Identifier: Apache-2.0
// Pinned host memory: pages that copies to a chip read while the program goes on.
#pragma once

#include <c10/core/Allocator.h>

namespace tpu::device {

c10::Allocator* host_allocator();
bool is_pinned_pointer(const void* data);

}  // namespace tpu::device
