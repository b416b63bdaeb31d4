// SPDX-License-Identifier: Apache-2.0
// Pinned host memory.
#include "device/host_allocator.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace tpu::device {
namespace {

constexpr size_t kPage = 4096;

std::mutex& mutex() {
  static auto* instance = new std::mutex;
  return *instance;
}
std::map<const char*, size_t>& blocks() {
  static auto* instance = new std::map<const char*, size_t>;
  return *instance;
}

void release(void* data) {
  if (!data) return;
  std::lock_guard guard(mutex());
  auto found = blocks().find(static_cast<char*>(data));
  ::munlock(data, found->second);
  blocks().erase(found);
  std::free(data);
}

struct HostAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    void* data = std::aligned_alloc(kPage, rounded);
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "pin_memory: the host has no ", bytes, " bytes left");
    // Best effort: an unprivileged process may lock little. The memory serves as well when it can be paged.
    (void)::mlock(data, rounded);
    std::lock_guard guard(mutex());
    blocks().emplace(static_cast<char*>(data), rounded);
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, std::size_t count) const override {
    default_copy_data(target, source, count);
  }
};

}  // namespace

c10::Allocator* host_allocator() {
  static auto* instance = new HostAllocator;
  return instance;
}

bool is_pinned_pointer(const void* data) {
  std::lock_guard guard(mutex());
  const auto* at = static_cast<const char*>(data);
  auto found = blocks().upper_bound(at);
  if (found == blocks().begin()) return false;
  --found;
  return at < found->first + found->second;
}

}  // namespace tpu::device
