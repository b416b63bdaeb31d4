// SPDX-License-Identifier: Apache-2.0
// Sampling an image at computed points.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

Value affine_grid(Args& a);
Value grid_sampler(Args& a);
Results grid_sampler_backward(Args& a);

}  // namespace tpu::lower
