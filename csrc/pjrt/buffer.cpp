// SPDX-License-Identifier: Apache-2.0
// Copies of buffers to the host.
#include "pjrt/buffer.h"

#include <array>
#include <cstring>
#include <string>

namespace tpu::pjrt {

namespace {

// Whether the array lies in host memory exactly as to_host would write it.
bool is_plain_host_memory(const Api& api, PJRT_Buffer* buffer, size_t rank, size_t bytes) {
  for (bool has : {api.has(&PJRT_Api::PJRT_Buffer_IsOnCpu), api.has(&PJRT_Api::PJRT_Buffer_GetMemoryLayout),
                   api.has(&PJRT_Api::PJRT_Buffer_UnsafePointer)}) {
    if (!has) return false;
  }
  if (!PJRT_CALL(api, PJRT_Buffer_IsOnCpu, .buffer = buffer).is_on_cpu) return false;
  if (PJRT_CALL(api, PJRT_Buffer_OnDeviceSizeInBytes, .buffer = buffer).on_device_size_in_bytes != bytes)
    return false;
  PJRT_Buffer_MemoryLayout layout = PJRT_CALL(api, PJRT_Buffer_GetMemoryLayout, .buffer = buffer).layout;
  if (layout.type != PJRT_Buffer_MemoryLayout_Type_Tiled || layout.tiled.num_tiles != 0) return false;
  std::span order(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size);
  if (order.size() != rank) return false;
  for (size_t i = 0; i < rank; ++i) {
    if (order[i] != static_cast<int64_t>(rank - 1 - i)) return false;
  }
  return true;
}

}  // namespace

void Buffer::read(void* dst, size_t bytes) const {
  std::span<const int64_t> sizes = dims();
  auto needed = host_bytes(type(), sizes);
  ready().await();
  if (needed && *needed > 0 && *needed <= bytes && dst != nullptr &&
      is_plain_host_memory(api(), raw_.get(), sizes.size(), *needed)) {
    std::memcpy(dst, reinterpret_cast<const void*>(unsafe_pointer()), *needed);
  } else {
    to_host(dst, bytes).await();
  }
}

Event Buffer::to_host(void* dst, size_t bytes) const {
  static constexpr const char* kCall = "PJRT_Buffer_ToHostBuffer";
  std::array<int64_t, 64> minor_to_major;
  std::span<const int64_t> sizes = dims();
  size_t rank = sizes.size();
  if (rank > minor_to_major.size()) {
    throw Error(PJRT_Error_Code_INVALID_ARGUMENT, kCall,
                "expected a rank up to 64, got " + std::to_string(rank));
  }
  auto needed = host_bytes(type(), sizes);
  if (!needed || bytes < *needed || (dst == nullptr && *needed > 0)) {
    // A null `dst` would be taken as a question for the size.
    throw Error(PJRT_Error_Code_INVALID_ARGUMENT, kCall,
                "expected room for " + (needed ? std::to_string(*needed) : "an array type of known size") +
                    " bytes, got " + (dst == nullptr ? "a null pointer" : std::to_string(bytes)));
  }
  // Any address will do for an empty array.
  static char nothing;
  for (size_t i = 0; i < rank; ++i) minor_to_major[i] = static_cast<int64_t>(rank - 1 - i);
  // Without a layout the copy would have the layout of the device.
  auto layout = PJRT_ARGS(PJRT_Buffer_MemoryLayout, );
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = PJRT_ARGS(PJRT_Buffer_MemoryLayout_Tiled, .minor_to_major = minor_to_major.data(),
                           .minor_to_major_size = rank);
  return {api(), PJRT_CALL(api(), PJRT_Buffer_ToHostBuffer, .src = raw_.get(), .host_layout = &layout,
                           .dst = dst != nullptr ? dst : &nothing, .dst_size = bytes)
                     .event};
}

}  // namespace tpu::pjrt
