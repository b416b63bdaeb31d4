// SPDX-License-Identifier: Apache-2.0
// What PyTorch asks of an accelerator: counts, the current device, generators, pinned memory, resizing.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include "device/generator.h"
#include "device/host_allocator.h"
#include "runtime/chip.h"
#include "runtime/storage.h"

namespace tpu::device {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return runtime::chip_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return runtime::runtime_made(); }
  void init() const override { runtime::runtime(); }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(runtime::chip_count());
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(runtime::current_chip());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    runtime::chip(device);
    runtime::set_current_chip(device);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto before = static_cast<c10::DeviceIndex>(runtime::current_chip());
    setCurrentDevice(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return make_generator(device); }

  bool isPinnedPtr(const void* data) const override { return is_pinned_pointer(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }
  at::Device getDeviceFromPtr(void*) const override {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "tpu: a device address does not tell its chip, because arrays move when they are written");
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    runtime::resize_storage(storage, bytes);
  }
};

// torch.accelerator's memory figures.
struct DeviceAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return runtime::allocator()->allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "tpu: raw memory can't be copied by address");
  }
  bool initialized() override { return runtime::runtime_made(); }
  void emptyCache(c10::MempoolId_t) override {
    if (!runtime::runtime_made()) return;
    for (int i = 0; i < runtime::chip_count(); ++i) runtime::chip(i).drop_scalars();
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // a launch holds its arguments
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const runtime::MemoryAccount& memory = runtime::chip(device).memory();
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* group :
         {&stats.allocated_bytes, &stats.active_bytes, &stats.reserved_bytes, &stats.requested_bytes}) {
      auto& all = (*group)[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
      all.current = memory.live;
      all.peak = memory.peak;
      all.allocated = memory.allocated;
      all.freed = memory.freed;
    }
    auto& count = stats.allocation[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    count.current = count.peak = memory.arrays;
    count.allocated = memory.allocations;
    stats.num_ooms = memory.out_of_memory;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    auto& memory = runtime::chip(device).memory();
    memory.allocated = memory.freed = memory.allocations = 0;
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    auto& memory = runtime::chip(device).memory();
    memory.peak = memory.live;
  }
};

// Registered when the library is loaded; PyTorch takes the hooks only once.
[[maybe_unused]] const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::SetAllocator(runtime::kDevice, new DeviceAllocator);
  return true;
}();

}  // namespace
}  // namespace tpu::device
