// SPDX-License-Identifier: Apache-2.0
// Rules of Fourier transforms.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

Value fft_c2c(Args& a);  // (self, dim, normalization, forward)
Value fft_r2c(Args& a);  // (self, dim, normalization, onesided)
Value fft_c2r(Args& a);  // (self, dim, normalization, last_dim_size)

}  // namespace tpu::lower
