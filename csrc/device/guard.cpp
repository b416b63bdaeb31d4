// SPDX-License-Identifier: Apache-2.0
// Device guard, streams and events.
//
// A chip runs its programs in the order of their data, so any number of streams may exist and none has to be
// waited for: a stream is a name. Events are real: they hold the arrays that were under way when they were
// recorded.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>

#include "runtime/chip.h"
#include "runtime/recording.h"
#include "runtime/storage.h"

namespace tpu::device {
namespace {

using Clock = std::chrono::steady_clock;

// Fires when all that was launched on a chip before it is done.
struct Event {
  c10::EventFlag flag;
  std::vector<runtime::ArrayRef> waits_for;
  std::shared_ptr<std::atomic<int64_t>> done_at =
      std::make_shared<std::atomic<int64_t>>(0);  // nanoseconds; 0: not yet
  int chip = 0;

  void refresh() {
    std::erase_if(waits_for, [](const runtime::ArrayRef& array) {
      return !array->buffer() || array->pjrt_buffer().ready().is_ready();
    });
  }
};

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

thread_local std::vector<c10::StreamId> current_streams;
std::atomic<c10::StreamId> next_stream{1};

c10::StreamId& stream_of(int chip) {
  if (current_streams.size() <= static_cast<size_t>(chip)) current_streams.resize(chip + 1, 0);
  return current_streams[chip];
}

c10::Stream make_stream(c10::Device device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, device, id);
}

c10::Device with_index(c10::Device device) {
  return device.has_index()
             ? device
             : c10::Device(runtime::kDevice, static_cast<c10::DeviceIndex>(runtime::current_chip()));
}

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return runtime::kDevice; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device.index() != before.index()) setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {runtime::kDevice, static_cast<c10::DeviceIndex>(runtime::current_chip())};
  }
  void setDevice(c10::Device device) const override {
    if (device.index() < 0) return;
    if (device.index() >= runtime::chip_count()) runtime::chip(device.index());  // raises
    runtime::set_current_chip(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) runtime::set_current_chip(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(runtime::chip_count());
  }

  c10::Stream getStream(c10::Device device) const override {
    device = with_index(device);
    return make_stream(device, stream_of(device.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return make_stream(with_index(device), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return make_stream(with_index(device), next_stream.fetch_add(1));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::StreamId& current = stream_of(stream.device_index());
    const c10::Stream before = make_stream(stream.device(), current);
    current = stream.id();
    return before;
  }
  bool queryStream(const c10::Stream& stream) const override {
    runtime::Chip& chip = runtime::chip(stream.device_index());
    {
      std::lock_guard guard(runtime::lock());
      chip.recording().launch();
    }
    return chip.idle();
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    runtime::chip(stream.device_index()).synchronize();
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    if (runtime::runtime_made()) runtime::chip(device < 0 ? runtime::current_chip() : device).synchronize();
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    runtime::check_fork();
    if (!*event) *event = new Event{flag};
    auto* e = static_cast<Event*>(*event);
    e->chip = stream.device_index();
    runtime::Chip& chip = runtime::chip(e->chip);
    e->done_at = std::make_shared<std::atomic<int64_t>>(0);
    std::lock_guard guard(runtime::lock());
    chip.recording().launch();
    e->waits_for = chip.unsettled();
    if (flag != c10::EventFlag::BACKEND_DEFAULT) return;  // no time asked for
    // The time at which the last of them is ready. Callbacks run on the plugin's threads and touch only the
    // counter.
    auto left = std::make_shared<std::atomic<int>>(static_cast<int>(e->waits_for.size()) + 1);
    auto arrived = [left, at = e->done_at](std::optional<pjrt::Error>) {
      if (left->fetch_sub(1) != 1) return;
      at->store(now());
      at->notify_all();
    };
    for (const runtime::ArrayRef& array : e->waits_for) array->pjrt_buffer().ready().on_ready(arrived);
    arrived({});
  }
  void block(void*, const c10::Stream&) const override {}  // the order of the data holds anyway
  bool queryEvent(void* event) const override {
    auto* e = static_cast<Event*>(event);
    if (!e) return true;
    std::lock_guard guard(runtime::lock());
    e->refresh();
    return e->waits_for.empty();
  }
  void synchronizeEvent(void* event) const override {
    auto* e = static_cast<Event*>(event);
    if (!e) return;
    for (const runtime::ArrayRef& array : e->waits_for) runtime::chip(e->chip).await(array);
    e->waits_for.clear();
    runtime::chip(e->chip).run_checks(true);
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    auto *a = static_cast<Event*>(first), *b = static_cast<Event*>(second);
    TORCH_CHECK_VALUE(a && b, "elapsed_time: both events must be recorded before their time is asked for");
    TORCH_CHECK_VALUE(
        a->flag == c10::EventFlag::BACKEND_DEFAULT && b->flag == c10::EventFlag::BACKEND_DEFAULT,
        "elapsed_time: both events must be made with enable_timing=True");
    TORCH_CHECK(queryEvent(first) && queryEvent(second),
                "elapsed_time: both events must have happened; call synchronize() first");
    a->done_at->wait(0);  // the callback that takes the time may come a little after the event itself
    b->done_at->wait(0);
    return static_cast<double>(b->done_at->load() - a->done_at->load()) * 1e-6;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace
}  // namespace tpu::device
