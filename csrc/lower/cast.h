// SPDX-License-Identifier: Apache-2.0
// Conversion between dtypes with PyTorch's results.
#pragma once

#include "hlo/math.h"

namespace tpu::lower {

// StableHLO's convert saturates floats that are out of an integer's range and refuses complex to real;
// PyTorch wraps through a wider integer and drops the imaginary part.
hlo::Value cast(hlo::Value x, hlo::DType dtype);

}  // namespace tpu::lower
