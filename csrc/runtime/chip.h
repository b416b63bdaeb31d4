// SPDX-License-Identifier: Apache-2.0
// A chip (real or virtual), the client it belongs to, and what lives on it: arrays, memory accounts, the open
// recording.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "pjrt/client.h"
#include "runtime/array.h"
#include "runtime/location.h"
#include "runtime/repeats.h"

namespace tpu::runtime {

class Recording;

// One lock for all of the runtime's state. It is never held while Python's lock is asked for.
std::recursive_mutex& lock();

struct MemoryAccount {
  int64_t live = 0;         // bytes in arrays now
  int64_t peak = 0;         // highest `live` since the last reset
  int64_t limit = 0;        // bytes; 0: none
  int64_t allocated = 0;    // bytes ever
  int64_t freed = 0;        // bytes ever
  int64_t arrays = 0;       // arrays now
  int64_t allocations = 0;  // arrays ever
  int64_t out_of_memory = 0;
};

// A condition that a program computes beside its results, for instance that all indices were in range.
struct Check {
  ArrayRef ok;  // kPred, 0-d
  const char* what;
  std::string message;
  std::string op;
  Location where;
};

class Chip {
 public:
  Chip(int index, pjrt::Device device, int64_t limit);

  int index() const { return index_; }
  const pjrt::Device& device() const { return device_; }
  std::string name() const { return "tpu:" + std::to_string(index_); }
  Recording& recording() { return *recording_; }  // of the eager modes
  Repeats& repeats() { return repeats_; }         // of the ops in it

  // ---- arrays from the host
  // Copies `data` (dense, row-major) before it returns.
  ArrayRef from_host(const void* data, hlo::Type type);
  // Reads `data` later: the returned event tells when. Only for memory that stays as it is until then.
  ArrayRef from_host_async(const void* data, hlo::Type type, pjrt::Event* done);
  // A 0-d array with the given bytes; equal ones are made once and kept.
  ArrayRef scalar(hlo::DType dtype, uint64_t low, uint64_t high = 0);
  ArrayRef integer(int64_t value, hlo::DType dtype);

  // ---- to the host
  // Waits for the value and copies it to `data`, row-major. Raises the errors of the work that made it.
  void to_host(const ArrayRef& array, void* data);

  // ---- waiting
  void synchronize();  // launches the recording, waits for all arrays, raises what went wrong
  void await(const ArrayRef& array);
  bool idle();                        // whether all launched work is done; does not launch or wait
  std::vector<ArrayRef> unsettled();  // arrays that are not ready yet
  void add_check(Check check);
  void run_checks(bool wait);  // raises the first condition that does not hold

  // ---- memory
  MemoryAccount& memory() { return memory_; }
  // Called before a launch: raises torch.OutOfMemoryError if `bytes` more do not fit.
  void reserve(int64_t bytes, const char* op);
  void drop_scalars() { scalars_.clear(); }

  // ---- the log of launches: which op, called from where
  uint64_t log_launch(const char* op, Location where);
  std::string describe_launch(
      uint64_t launch) const;  // "add.Tensor, called at train.py:12 in step"; "" if forgotten

  // The list of arrays that may not be ready yet.
  void link(Array& array);
  void unlink(Array& array);

 private:
  struct Launch {
    uint64_t number = 0;
    const char* op = nullptr;
    Location where;
  };
  struct ScalarKey {
    hlo::DType dtype;
    uint64_t low, high;
    friend bool operator==(const ScalarKey&, const ScalarKey&) = default;
  };
  struct ScalarHash {
    size_t operator()(const ScalarKey& k) const {
      return (k.low * 0x9E3779B97F4A7C15u) ^ (k.high + (static_cast<uint64_t>(k.dtype) << 56));
    }
  };
  [[noreturn]] void raise(const pjrt::Error& error, uint64_t launch) const;

  int index_;
  pjrt::Device device_;
  MemoryAccount memory_;
  std::unique_ptr<Recording> recording_;
  Repeats repeats_;
  std::unordered_map<ScalarKey, ArrayRef, ScalarHash> scalars_;
  Array* unsettled_first_ = nullptr;
  Array* unsettled_last_ = nullptr;
  std::deque<Check> checks_;
  std::vector<Launch> launches_;  // a ring
  uint64_t launch_count_ = 0;
};

class Runtime {
 public:
  Runtime();
  const pjrt::Client& client() const { return *client_; }
  int chip_count() const { return static_cast<int>(chips_.size()); }
  Chip& chip(int index);  // raises for an index out of range

 private:
  std::unique_ptr<pjrt::Client> client_;
  std::vector<std::unique_ptr<Chip>> chips_;
};

// Makes the client at the first call; raises (each time) what keeps it from being made.
Runtime& runtime();
bool runtime_made();
int chip_count();  // without making the client where that can be avoided; never raises
inline Chip& chip(int index) { return runtime().chip(index); }
int current_chip();  // of the calling thread, as torch.tpu.set_device set it
void set_current_chip(int index);

PJRT_Buffer_Type pjrt_type(hlo::DType dtype);

// Lets other Python threads run while the calling thread waits for a device. Not under lock().
struct WaitHooks {
  void* (*leave)() = nullptr;
  void (*enter)(void*) = nullptr;
};
void set_wait_hooks(WaitHooks hooks);
void await_event(const pjrt::Event& event);

// Raises if this process is the child of a fork that happened after the client was made.
void check_fork();
bool forked();

}  // namespace tpu::runtime
