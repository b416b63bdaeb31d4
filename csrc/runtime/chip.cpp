// SPDX-License-Identifier: Apache-2.0
// Chips: arrays from and to the host, waiting, memory accounts.
#include "runtime/chip.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "runtime/counters.h"
#include "runtime/padding.h"
#include "runtime/recording.h"

namespace tpu::runtime {
namespace {

constexpr size_t kLogSize = 4096;
constexpr size_t kMostScalars = 8192;
constexpr size_t kMostChecks = 64;

std::string mib(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

Chip::Chip(int index, pjrt::Device device, int64_t limit)
    : index_(index),
      device_(std::move(device)),
      recording_(std::make_unique<Recording>(*this)),
      launches_(kLogSize) {
  memory_.limit = limit;
}

ArrayRef Chip::from_host(const void* data, hlo::Type type) {
  std::lock_guard guard(lock());
  reserve(static_cast<int64_t>(type.bytes()), "copy from the host");
  auto made = runtime().client().from_host(data, pjrt_type(type.dtype), type.dims, device_);
  return ArrayRef(new Array(*this, std::move(type), std::move(made.buffer)));
}

ArrayRef Chip::from_host_async(const void* data, hlo::Type type, pjrt::Event* done) {
  std::lock_guard guard(lock());
  reserve(static_cast<int64_t>(type.bytes()), "copy from the host");
  auto made = runtime().client().from_host(data, pjrt_type(type.dtype), type.dims, device_,
                                           PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
  *done = std::move(made.done_with_host);
  ArrayRef array(new Array(*this, std::move(type), std::move(made.buffer)));
  link(*array);
  return array;
}

ArrayRef Chip::scalar(hlo::DType dtype, uint64_t low, uint64_t high) {
  std::lock_guard guard(lock());
  const ScalarKey key{dtype, low, high};
  if (auto found = scalars_.find(key); found != scalars_.end()) return found->second;
  if (scalars_.size() >= kMostScalars) scalars_.clear();
  const uint64_t bytes[2] = {low, high};
  auto made = runtime().client().from_host(bytes, pjrt_type(dtype), {}, device_);
  ArrayRef array(new Array(*this, {dtype, {}}, std::move(made.buffer)));
  scalars_.emplace(key, array);
  return array;
}

ArrayRef Chip::integer(int64_t value, hlo::DType dtype) {
  // Little endian: the low bytes of a 64-bit integer are the narrower one.
  const size_t width = hlo::byte_width(dtype);
  const uint64_t mask = width == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * width)) - 1;
  return scalar(dtype, static_cast<uint64_t>(value) & mask);
}

void Chip::to_host(const ArrayRef& array, void* data) {
  pjrt::Event done;
  std::vector<char> padded;
  {
    std::lock_guard guard(lock());
    check_fork();
    if (array->pending()) array->recording()->force();
    TORCH_CHECK(array->buffer() != nullptr,
                "this tensor has no value: the program that should have made it failed earlier (its error "
                "was raised then)");
    ++counters().syncs;
    try {
      if (array->is_padded()) padded.resize(array->bytes());
      done = array->pjrt_buffer().to_host(array->is_padded() ? padded.data() : data, array->bytes());
    } catch (const pjrt::Error& error) {
      raise(error, array->launch());
    }
  }
  try {
    await_event(done);
  } catch (const pjrt::Error& error) {
    synchronize();  // the work that failed first explains more than what followed from it
    raise(error, array->launch());
  }
  if (!padded.empty()) strip(*array, padded.data(), static_cast<char*>(data));
  run_checks(true);
}

void Chip::await(const ArrayRef& array) {
  pjrt::Event ready;
  {
    std::lock_guard guard(lock());
    if (array->pending()) array->recording()->force();
    if (!array->buffer()) return;
    ready = array->pjrt_buffer().ready();
  }
  try {
    await_event(ready);
  } catch (const pjrt::Error& error) {
    raise(error, array->launch());
  }
}

void Chip::synchronize() {
  check_fork();
  {
    std::lock_guard guard(lock());
    recording_->launch();
    ++counters().syncs;
  }
  for (;;) {
    ArrayRef first;
    {
      std::lock_guard guard(lock());
      if (!unsettled_first_) break;
      // An array whose last reference is going away right now waits for the lock to unlink itself: leave it
      // alone.
      if (unsettled_first_->references() == 0) {
        unlink(*unsettled_first_);
        continue;
      }
      first = ArrayRef(unsettled_first_);
      unlink(*first);
    }
    await(first);
  }
  run_checks(true);
}

bool Chip::idle() {
  std::lock_guard guard(lock());
  while (unsettled_first_) {
    if (unsettled_first_->buffer() && !unsettled_first_->pjrt_buffer().ready().is_ready()) return false;
    unlink(*unsettled_first_);
  }
  return true;
}

std::vector<ArrayRef> Chip::unsettled() {
  std::vector<ArrayRef> result;
  for (Array* array = unsettled_first_; array;) {
    Array* next = array->unsettled_next_;
    if (!array->buffer() || array->pjrt_buffer().ready().is_ready())
      unlink(*array);
    else if (array->references() > 0)
      result.emplace_back(array);
    array = next;
  }
  return result;
}

void Chip::add_check(Check check) {
  checks_.push_back(std::move(check));
  if (checks_.size() > kMostChecks) run_checks(false);
}

void Chip::run_checks(bool wait) {
  for (;;) {
    Check check;
    {
      std::lock_guard guard(lock());
      if (checks_.empty()) return;
      if (!wait && !checks_.front().ok->pjrt_buffer().ready().is_ready()) return;
      check = std::move(checks_.front());
      checks_.pop_front();
    }
    uint8_t ok = 0;
    try {
      check.ok->pjrt_buffer().to_host(&ok, 1).await();
    } catch (const pjrt::Error& error) {
      raise(error, check.ok->launch());
    }
    if (ok) continue;
    {  // A call is told wrong once.
      std::lock_guard guard(lock());
      while (!checks_.empty() && checks_.front().op == check.op &&
             checks_.front().ok->launch() == check.ok->launch())
        checks_.pop_front();
    }
    const std::string where = describe(check.where);
    const std::string text =
        check.op + ": " + check.message + (where.empty() ? "" : " (called at " + where + ")");
    if (std::strcmp(check.what, "index") == 0) TORCH_CHECK_INDEX(false, text);
    TORCH_CHECK(false, text);
  }
}

void Chip::reserve(int64_t bytes, const char* op) {
  if (memory_.limit == 0 || memory_.live + bytes <= memory_.limit) return;
  drop_scalars();
  if (memory_.live + bytes <= memory_.limit) return;
  ++memory_.out_of_memory;
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, name(), " is out of memory: ", op, " needs ", mib(bytes), " more, and ",
      mib(memory_.live), " of ", mib(memory_.limit), " are in use by ", memory_.arrays, " arrays (peak ",
      mib(memory_.peak),
      "). Delete tensors that are no longer needed, use a smaller batch or a smaller dtype, or run under "
      "torch.no_grad() where no gradient is needed.");
}

uint64_t Chip::log_launch(const char* op, Location where) {
  ++launch_count_;
  launches_[launch_count_ % kLogSize] = {launch_count_, op, where};
  return launch_count_;
}

std::string Chip::describe_launch(uint64_t launch) const {
  const Launch& entry = launches_[launch % kLogSize];
  if (launch == 0 || entry.number != launch) return "";
  const std::string where = describe(entry.where);
  return std::string(entry.op) + (where.empty() ? "" : ", called at " + where);
}

void Chip::raise(const pjrt::Error& error, uint64_t launch) const {
  const std::string what = describe_launch(launch);
  const std::string text = name() + ": " + (what.empty() ? "" : what + ": ") + error.what();
  TORCH_CHECK_WITH(OutOfMemoryError, error.code() != PJRT_Error_Code_RESOURCE_EXHAUSTED, text);
  TORCH_CHECK(false, text);
}

void Chip::link(Array& array) {
  if (array.unsettled_next_ || array.unsettled_previous_ || unsettled_first_ == &array) return;
  array.unsettled_previous_ = unsettled_last_;
  (unsettled_last_ ? unsettled_last_->unsettled_next_ : unsettled_first_) = &array;
  unsettled_last_ = &array;
}

void Chip::unlink(Array& array) {
  if (!array.unsettled_next_ && !array.unsettled_previous_ && unsettled_first_ != &array) return;
  (array.unsettled_previous_ ? array.unsettled_previous_->unsettled_next_ : unsettled_first_) =
      array.unsettled_next_;
  (array.unsettled_next_ ? array.unsettled_next_->unsettled_previous_ : unsettled_last_) =
      array.unsettled_previous_;
  array.unsettled_next_ = array.unsettled_previous_ = nullptr;
}

}  // namespace tpu::runtime
