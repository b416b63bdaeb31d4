// SPDX-License-Identifier: Apache-2.0
// The client of the process: made from the configuration at first use, kept to the end.
#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "runtime/buckets.h"
#include "runtime/chip.h"
#include "runtime/config.h"
#include "runtime/recording.h"

namespace tpu::runtime {
namespace {

Config current;
std::atomic<Mode> current_mode{Mode::kStrict};
bool buckets_enabled = true;
std::vector<int64_t> bucket_sizes;
std::atomic<Fallback> current_fallback{Fallback::kWarn};
std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> is_forked{false};
WaitHooks wait_hooks;

void after_fork_in_child() {
  if (instance.load()) is_forked.store(true);
}

}  // namespace

const Config& config() { return current; }

void configure(Config given) {
  std::lock_guard guard(lock());
  TORCH_CHECK(!instance.load(),
              "torch_tpu is configured before the first tensor on the device; it is in use already");
  current = std::move(given);
}

Mode mode() { return current_mode.load(std::memory_order_relaxed); }

void set_mode(Mode mode) {
  std::lock_guard guard(lock());
  if (Runtime* made = instance.load())
    for (int i = 0; i < made->chip_count(); ++i) {
      made->chip(i).recording().launch();
      made->chip(i).repeats().launched(/*compiled=*/false);  // who asks for fused gets it
    }
  current_mode.store(mode);
}

void set_buckets(bool on, std::vector<int64_t> sizes) {
  std::lock_guard guard(lock());
  std::ranges::sort(sizes);
  buckets_enabled = on;
  bucket_sizes = std::move(sizes);
  buckets().forget();
}

bool buckets_on() { return buckets_enabled; }

int64_t bucket_of(int64_t n, bool grows) {
  if (bucket_sizes.empty()) {
    const int64_t least = grows && n >= 16 ? 64 : 8;
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(n, least))));
  }
  const auto found = std::ranges::lower_bound(bucket_sizes, n);
  return found == bucket_sizes.end() ? 0 : *found;
}

Fallback fallback() { return current_fallback.load(); }
void set_fallback(Fallback fallback) { current_fallback.store(fallback); }

std::recursive_mutex& lock() {
  static auto* mutex = new std::recursive_mutex;  // outlives all tensors
  return *mutex;
}

Runtime::Runtime() {
  TORCH_CHECK(!current.plugin.empty(), "there is no tpu device: ", current.why_none);
  const pjrt::Api& api = pjrt::Api::load(current.plugin);
  pjrt::Values wanted;
  if (current.is_virtual) wanted["cpu_device_count"] = static_cast<int64_t>(current.chips);
  client_ = std::make_unique<pjrt::Client>(api, pjrt::Values{}, wanted);
  const auto& devices = client_->devices();
  TORCH_CHECK(!devices.empty(), "the PJRT plugin ", current.plugin, " has no device for this process");
  TORCH_CHECK(!current.is_virtual || static_cast<int>(devices.size()) >= current.chips, "the PJRT plugin ",
              current.plugin, " gives ", devices.size(),
              " virtual chips, and TORCH_TPU_VIRTUAL_CHIPS asks for ", current.chips);
  const size_t count = current.is_virtual ? static_cast<size_t>(current.chips) : devices.size();
  for (size_t i = 0; i < count; ++i)
    chips_.push_back(std::make_unique<Chip>(static_cast<int>(i), devices[i],
                                            current.is_virtual ? current.memory_limit : 0));
}

Chip& Runtime::chip(int index) {
  TORCH_CHECK(index >= 0 && index < chip_count(), "tpu:", index, ": expected a chip index from 0 to ",
              chip_count() - 1, ", got ", index, ". This process has ", chip_count(), " chip",
              chip_count() == 1 ? "" : "s",
              current.is_virtual ? " (TORCH_TPU_VIRTUAL_CHIPS sets the number of virtual ones)." : ".");
  return *chips_[index];
}

Runtime& runtime() {
  if (Runtime* made = instance.load(std::memory_order_acquire)) [[likely]]
    return *made;
  std::lock_guard guard(lock());
  if (Runtime* made = instance.load()) return *made;
  static bool handler = (pthread_atfork(nullptr, nullptr, after_fork_in_child), true);
  (void)handler;
  instance.store(new Runtime);  // never destroyed: tensors may outlive all static objects
  return *instance.load();
}

bool runtime_made() { return instance.load() != nullptr; }

int chip_count() {
  if (Runtime* made = instance.load()) return made->chip_count();
  if (current.plugin.empty()) return 0;
  if (current.is_virtual) return current.chips;
  try {
    return runtime().chip_count();
  } catch (const std::exception&) {
    return 0;
  }
}

namespace {
thread_local int thread_chip = 0;
}
int current_chip() { return thread_chip; }
void set_current_chip(int index) { thread_chip = index; }

void set_wait_hooks(WaitHooks hooks) { wait_hooks = hooks; }

void await_event(const pjrt::Event& event) {
  if (event.is_ready() || !wait_hooks.leave) return event.await();
  struct Away {
    void* state = wait_hooks.leave();
    ~Away() { wait_hooks.enter(state); }
  } away;
  event.await();
}

bool forked() { return is_forked.load(std::memory_order_relaxed); }

void check_fork() {
  TORCH_CHECK(!forked(),
              "tpu: this process was forked from one that uses the device, and the runtime's threads do not "
              "survive a fork. "
              "Start processes with the 'spawn' method (torch.multiprocessing.set_start_method('spawn')), or "
              "use the device "
              "only after the fork.");
}

PJRT_Buffer_Type pjrt_type(hlo::DType dtype) {
  switch (dtype) {
    case hlo::DType::kPred:
      return PJRT_Buffer_Type_PRED;
    case hlo::DType::kS8:
      return PJRT_Buffer_Type_S8;
    case hlo::DType::kS16:
      return PJRT_Buffer_Type_S16;
    case hlo::DType::kS32:
      return PJRT_Buffer_Type_S32;
    case hlo::DType::kS64:
      return PJRT_Buffer_Type_S64;
    case hlo::DType::kU8:
      return PJRT_Buffer_Type_U8;
    case hlo::DType::kU16:
      return PJRT_Buffer_Type_U16;
    case hlo::DType::kU32:
      return PJRT_Buffer_Type_U32;
    case hlo::DType::kU64:
      return PJRT_Buffer_Type_U64;
    case hlo::DType::kF16:
      return PJRT_Buffer_Type_F16;
    case hlo::DType::kBF16:
      return PJRT_Buffer_Type_BF16;
    case hlo::DType::kF32:
      return PJRT_Buffer_Type_F32;
    case hlo::DType::kF64:
      return PJRT_Buffer_Type_F64;
    case hlo::DType::kC64:
      return PJRT_Buffer_Type_C64;
    case hlo::DType::kC128:
      return PJRT_Buffer_Type_C128;
    case hlo::DType::kF8E4M3FN:
      return PJRT_Buffer_Type_F8E4M3FN;
    case hlo::DType::kF8E5M2:
      return PJRT_Buffer_Type_F8E5M2;
  }
  return PJRT_Buffer_Type_INVALID;
}

}  // namespace tpu::runtime
