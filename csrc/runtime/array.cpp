// SPDX-License-Identifier: Apache-2.0
// Life of an Array, and its entry in the chip's accounts.
#include "runtime/array.h"

#include "runtime/chip.h"
#include "runtime/recording.h"

namespace tpu::runtime {

Array::Array(Chip& chip, hlo::Type type, pjrt::Buffer buffer, uint64_t launch, const hlo::Dims& dims)
    : chip_(chip), type_(std::move(type)), buffer_(std::move(buffer)), launch_(launch) {
  if (!dims.empty() && dims != type_.dims) padded_ = dims;
  account(true);
  if (launch) chip_.link(*this);
}

Array::Array(Chip& chip, hlo::Type type, Recording& recording, hlo::Value value)
    : chip_(chip), type_(std::move(type)), recording_(&recording), value_(value) {
  pending_slot_ = recording.enlist(*this);
}

Array::~Array() {
  if (forked()) {  // the plugin's threads are gone: its memory is left to the end of the process
    (void)buffer_.release();
    return;
  }
  std::lock_guard guard(lock());
  if (recording_) recording_->forget(*this);
  if (buffer_) account(false);
  chip_.unlink(*this);
}

size_t Array::bytes() const {
  return static_cast<size_t>(hlo::product(buffer_dims())) * hlo::byte_width(type_.dtype);
}

void Array::settle(pjrt::Buffer buffer, uint64_t launch, const hlo::Dims& dims) {
  recording_ = nullptr;
  buffer_ = std::move(buffer);
  if (dims != type_.dims) padded_ = dims;
  launch_ = launch;
  account(true);
  chip_.link(*this);
}

void Array::refit(pjrt::Buffer buffer, const hlo::Dims& dims, uint64_t launch) {
  account(false);
  buffer_ = std::move(buffer);
  padded_ = dims == type_.dims ? hlo::Dims() : dims;
  launch_ = launch;
  account(true);
  chip_.link(*this);
}

void Array::donated() {
  if (!buffer_) return;
  account(false);
  chip_.unlink(*this);
  buffer_ = {};
}

void Array::account(bool live) {
  MemoryAccount& memory = chip_.memory();
  const auto bytes = static_cast<int64_t>(this->bytes());
  if (live) {
    memory.live += bytes;
    memory.allocated += bytes;
    ++memory.arrays;
    ++memory.allocations;
    if (memory.live > memory.peak) memory.peak = memory.live;
  } else {
    memory.live -= bytes;
    memory.freed += bytes;
    --memory.arrays;
  }
}

}  // namespace tpu::runtime
