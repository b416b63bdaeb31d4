// SPDX-License-Identifier: Apache-2.0
// What the runtime did so far, for torch.tpu.counters() and for tests that assert it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace tpu::runtime {

struct Counters {
  std::atomic<uint64_t> compilations{0};  // programs given to the plugin's compiler
  std::atomic<uint64_t> memory_hits{0};   // programs (or memoised calls) found in memory
  std::atomic<uint64_t> disk_hits{0};     // programs loaded from the cache folder
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> syncs{0};  // waits of the host for a value
  std::atomic<uint64_t> compile_microseconds{0};
};

Counters& counters();
void reset_counters();  // fallbacks too

// Fallbacks to the CPU by operator.
void count_fallback(const std::string& op);
bool first_fallback(const std::string& op);  // true once per operator and process
std::map<std::string, uint64_t> fallbacks();

}  // namespace tpu::runtime
