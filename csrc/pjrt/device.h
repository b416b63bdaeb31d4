// SPDX-License-Identifier: Apache-2.0
// A chip of a client. The plugin owns it; this is a cheap view.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pjrt/api.h"

namespace tpu::pjrt {

struct MemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved,
      largest_free_block_bytes, pool_bytes, peak_pool_bytes;
};

class Device {
 public:
  Device(const Api& api, PJRT_Device* raw);

  PJRT_Device* get() const { return raw_; }
  // Unique over all processes; compile options name devices by it.
  int id() const { return id_; }
  // -1 if undefined.
  int local_hardware_id() const;
  // "TPU v6 lite", "cpu".
  std::string kind() const;
  std::string debug_string() const;
  // Empty where the plugin keeps no statistics (XLA:CPU).
  std::optional<MemoryStats> memory_stats() const;

 private:
  const Api* api_;
  PJRT_Device* raw_;
  PJRT_DeviceDescription* description_;
  int id_;
};

}  // namespace tpu::pjrt
