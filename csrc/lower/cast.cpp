// SPDX-License-Identifier: Apache-2.0
// Conversion between dtypes with PyTorch's results.
#include "lower/cast.h"

namespace tpu::lower {

using namespace hlo;

Value cast(Value x, DType dtype) {
  const DType from = x.dtype();
  if (from == dtype) return x;
  if (is_complex(from)) {
    if (is_complex(dtype)) return convert(x, dtype);
    if (dtype == DType::kPred) return or_(ne(real(x), 0.0), ne(imag(x), 0.0));
    return cast(real(x), dtype);
  }
  if (dtype == DType::kPred) return ne(x, zeros_like(x));
  if (is_complex(dtype)) {
    Value re = convert(x, real_of(dtype));
    return complex(re, zeros_like(re));
  }
  if (is_floating(from) && is_integral(dtype) && byte_width(dtype) < 8) {
    const DType between = is_unsigned(dtype) ? DType::kS64 : DType::kS32;
    if (between != dtype) return convert(convert(x, between), dtype);
  }
  return convert(x, dtype);
}

}  // namespace tpu::lower
