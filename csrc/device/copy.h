// SPDX-License-Identifier: Apache-2.0
// Copies in all directions: host to chip, chip to host, chip to chip.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/array.h"

namespace tpu::device {

// Copies `source` into `target`, converting dtype and broadcasting; at least one of them is on the device.
void copy_between(const at::Tensor& source, const at::Tensor& target, bool non_blocking);

// The tensor's elements in row-major order as one array; not a copy where the array is that already.
runtime::ArrayRef elements(const at::Tensor& tensor);

}  // namespace tpu::device
