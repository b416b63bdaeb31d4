// SPDX-License-Identifier: Apache-2.0
// Descriptions and memory statistics of devices.
#include "pjrt/device.h"

namespace tpu::pjrt {

Device::Device(const Api& api, PJRT_Device* raw)
    : api_(&api),
      raw_(raw),
      description_(PJRT_CALL(api, PJRT_Device_GetDescription, .device = raw).device_description),
      id_(PJRT_CALL(api, PJRT_DeviceDescription_Id, .device_description = description_).id) {}

int Device::local_hardware_id() const {
  return PJRT_CALL(*api_, PJRT_Device_LocalHardwareId, .device = raw_).local_hardware_id;
}

std::string Device::kind() const {
  auto args = PJRT_CALL(*api_, PJRT_DeviceDescription_Kind, .device_description = description_);
  return {args.device_kind, args.device_kind_size};
}

std::string Device::debug_string() const {
  auto args = PJRT_CALL(*api_, PJRT_DeviceDescription_DebugString, .device_description = description_);
  return {args.debug_string, args.debug_string_size};
}

std::optional<MemoryStats> Device::memory_stats() const {
  if (!api_->has(&PJRT_Api::PJRT_Device_MemoryStats)) return std::nullopt;
  PJRT_Device_MemoryStats_Args args;
  try {
    args = PJRT_CALL(*api_, PJRT_Device_MemoryStats, .device = raw_);
  } catch (const Error& error) {
    if (error.code() == PJRT_Error_Code_UNIMPLEMENTED) return std::nullopt;
    throw;
  }
  auto given = [](int64_t value, bool is_set) { return is_set ? std::optional(value) : std::nullopt; };
  return MemoryStats{
      .bytes_in_use = args.bytes_in_use,
      .peak_bytes_in_use = given(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set),
      .num_allocs = given(args.num_allocs, args.num_allocs_is_set),
      .largest_alloc_size = given(args.largest_alloc_size, args.largest_alloc_size_is_set),
      .bytes_limit = given(args.bytes_limit, args.bytes_limit_is_set),
      .bytes_reserved = given(args.bytes_reserved, args.bytes_reserved_is_set),
      .largest_free_block_bytes = given(args.largest_free_block_bytes, args.largest_free_block_bytes_is_set),
      .pool_bytes = given(args.pool_bytes, args.pool_bytes_is_set),
      .peak_pool_bytes = given(args.peak_pool_bytes, args.peak_pool_bytes_is_set)};
}

}  // namespace tpu::pjrt
