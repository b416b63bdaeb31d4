// SPDX-License-Identifier: Apache-2.0
// Arrays and cells: how a mutable PyTorch storage lies over immutable device buffers.
//
// A PJRT buffer cannot be changed; a PyTorch tensor can. Three things bridge the gap, and only one of them
// changes:
//
//   tensor   sizes, strides, offset, dtype: ordinary PyTorch metadata over a storage. Views are nothing else.
//   Cell     what a storage on this device owns: a reference to its present Array. Writing replaces the
//   reference. Array    an immutable value of a type (dtype and dims). It is *pending* (a value of an open
//   recording) or
//            *concrete* (a device buffer). Launching a recording turns its pending arrays into concrete ones.
//
// All aliases of a storage share the cell, so each of them sees a write at once, in every mode, and there are
// no lists of views to keep up to date. An Array may be shared: by two cells (a clone costs nothing until one
// of them is written), by a recording that reads it, by a launch in flight. When a cell alone holds it and
// the cell is being written, the launch may donate its buffer to the result: that is what makes `x += 1` an
// update in place.
//
// A cell without an array is memory that nobody has written: it reads as zeros and costs nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "hlo/program.h"
#include "pjrt/buffer.h"

namespace tpu::runtime {

class Chip;
class Recording;

class Array {
 public:
  // Concrete; `launch` is the launch that makes it, 0 for a copy from the host.
  // `dims`: those of the buffer, if larger than the type's.
  Array(Chip& chip, hlo::Type type, pjrt::Buffer buffer, uint64_t launch = 0, const hlo::Dims& dims = {});
  Array(Chip& chip, hlo::Type type, Recording& recording, hlo::Value value);  // pending
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  Chip& chip() const { return chip_; }
  const hlo::Type& type() const { return type_; }
  // Dims of the buffer: those of the type, or larger ones (runtime/padding.h). What lies behind is undefined.
  const hlo::Dims& buffer_dims() const { return padded_.empty() ? type_.dims : padded_; }
  bool is_padded() const { return !padded_.empty(); }
  size_t bytes() const;  // of the buffer
  bool pending() const { return recording_ != nullptr; }
  Recording* recording() const { return recording_; }
  hlo::Value value() const { return value_; }            // while pending
  PJRT_Buffer* buffer() const { return buffer_.get(); }  // once concrete
  const pjrt::Buffer& pjrt_buffer() const { return buffer_; }
  uint64_t launch() const { return launch_; }  // the launch that makes it; 0: made from host memory

  // The recording has been launched: `buffer` is (or will be) the value.
  void settle(pjrt::Buffer buffer, uint64_t launch, const hlo::Dims& dims);
  // The same value in a buffer of other dims.
  void refit(pjrt::Buffer buffer, const hlo::Dims& dims, uint64_t launch);
  // The launch took the buffer over: nothing is left here.
  void donated();
  // The recording that would have made the value is gone (its launch failed).
  void fail() { recording_ = nullptr; }
  // Whether the holder of the only reference asks.
  bool unique() const { return references_.load(std::memory_order_acquire) == 1; }
  int references() const { return references_.load(std::memory_order_acquire); }

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  friend class Chip;
  friend class Recording;

  void account(bool live);

  std::atomic<int> references_{0};
  Chip& chip_;
  hlo::Type type_;
  hlo::Dims padded_;  // empty: the buffer has the type's dims
  pjrt::Buffer buffer_;
  Recording* recording_ = nullptr;
  hlo::Value value_;
  size_t pending_slot_ = 0;  // place in the recording's list
  uint64_t launch_ = 0;
  Array* unsettled_next_ = nullptr;  // the chip's list of arrays that may not be ready yet
  Array* unsettled_previous_ = nullptr;
};

// A counted reference to an Array.
class ArrayRef {
 public:
  ArrayRef() = default;
  explicit ArrayRef(Array* array) : array_(array) {
    if (array_) array_->retain();
  }
  ArrayRef(const ArrayRef& other) : ArrayRef(other.array_) {}
  ArrayRef(ArrayRef&& other) noexcept : array_(std::exchange(other.array_, nullptr)) {}
  ArrayRef& operator=(ArrayRef other) noexcept {
    std::swap(array_, other.array_);
    return *this;
  }
  ~ArrayRef() {
    if (array_) array_->release();
  }
  explicit operator bool() const { return array_ != nullptr; }
  Array* get() const { return array_; }
  Array* operator->() const { return array_; }
  Array& operator*() const { return *array_; }
  friend bool operator==(const ArrayRef& a, const ArrayRef& b) { return a.array_ == b.array_; }

 private:
  Array* array_ = nullptr;
};

// What a storage owns. It hangs on the storage's DataPtr as its context.
struct Cell {
  Chip* chip;
  ArrayRef array;     // empty: never written
  hlo::Type made_as;  // the type the storage was made for: the shape a first partial write gives the array
};

}  // namespace tpu::runtime
