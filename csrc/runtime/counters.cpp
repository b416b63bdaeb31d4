// SPDX-License-Identifier: Apache-2.0
// Counters of the runtime.
#include "runtime/counters.h"

#include <mutex>
#include <set>

namespace tpu::runtime {
namespace {

std::mutex fallback_mutex;
std::map<std::string, uint64_t> fallback_counts;
std::set<std::string> fallback_seen;

}  // namespace

Counters& counters() {
  static Counters instance;
  return instance;
}

void reset_counters() {
  Counters& c = counters();
  for (auto* counter :
       {&c.compilations, &c.memory_hits, &c.disk_hits, &c.launches, &c.syncs, &c.compile_microseconds})
    counter->store(0);
  std::lock_guard lock(fallback_mutex);
  fallback_counts.clear();
}

void count_fallback(const std::string& op) {
  std::lock_guard lock(fallback_mutex);
  ++fallback_counts[op];
}

bool first_fallback(const std::string& op) {
  std::lock_guard lock(fallback_mutex);
  return fallback_seen.insert(op).second;
}

std::map<std::string, uint64_t> fallbacks() {
  std::lock_guard lock(fallback_mutex);
  return fallback_counts;
}

}  // namespace tpu::runtime
