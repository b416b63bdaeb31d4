// SPDX-License-Identifier: Apache-2.0
// Sizes of PJRT element types.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "pjrt_c_api.h"

namespace tpu::pjrt {

// Bits of one element on the host, or 0 for a type that holds no array data. XLA keeps 2 and 4-bit types
// unpacked (one byte each) on the host.
constexpr int host_bits(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_PRED:
    case PJRT_Buffer_Type_S8:
    case PJRT_Buffer_Type_U8:
    case PJRT_Buffer_Type_F8E5M2:
    case PJRT_Buffer_Type_F8E4M3FN:
    case PJRT_Buffer_Type_F8E4M3B11FNUZ:
    case PJRT_Buffer_Type_F8E5M2FNUZ:
    case PJRT_Buffer_Type_F8E4M3FNUZ:
    case PJRT_Buffer_Type_F8E4M3:
    case PJRT_Buffer_Type_F8E3M4:
    case PJRT_Buffer_Type_F8E8M0FNU:
    case PJRT_Buffer_Type_F4E2M1FN:
    case PJRT_Buffer_Type_S4:
    case PJRT_Buffer_Type_U4:
    case PJRT_Buffer_Type_S2:
    case PJRT_Buffer_Type_U2:
      return 8;
    case PJRT_Buffer_Type_S16:
    case PJRT_Buffer_Type_U16:
    case PJRT_Buffer_Type_F16:
    case PJRT_Buffer_Type_BF16:
      return 16;
    case PJRT_Buffer_Type_S32:
    case PJRT_Buffer_Type_U32:
    case PJRT_Buffer_Type_F32:
      return 32;
    case PJRT_Buffer_Type_S64:
    case PJRT_Buffer_Type_U64:
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_C64:
      return 64;
    case PJRT_Buffer_Type_C128:
      return 128;
    case PJRT_Buffer_Type_INVALID:
    case PJRT_Buffer_Type_TOKEN:
      return 0;
  }
  return 0;
}

// Bytes of a dense array on the host; empty if the type is unknown, a size is negative, or it overflows.
inline std::optional<size_t> host_bytes(PJRT_Buffer_Type type, std::span<const int64_t> dims) {
  int64_t bytes = host_bits(type) / 8;
  if (bytes == 0) return std::nullopt;
  bool overflow = false;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim == 0)
      empty = true;
    else
      overflow |= __builtin_mul_overflow(bytes, dim, &bytes);
  }
  if (empty) return 0;
  return overflow ? std::nullopt : std::optional<size_t>(bytes);
}

}  // namespace tpu::pjrt
