// SPDX-License-Identifier: Apache-2.0
// Resizing of images: upsample_* and their gradients.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

enum class Resample { kNearest, kNearestExact, kLinear, kCubic, kLinearAntialias, kCubicAntialias };
Rule upsample(Resample kind);           // (self, output_size, [align_corners], scales ...)
Rule upsample_backward(Resample kind);  // (grad_output, output_size, input_size, [align_corners], scales ...)

}  // namespace tpu::lower
