// SPDX-License-Identifier: Apache-2.0
// Repeats: where fused eager cuts its stream of ops, so that equal layers, the steps of a training loop and
// those of a decode loop become the same programs.
//
// Ops are compared by name only, one after the other, with those one period before. When a whole period has
// come twice, its last ops are a *landmark*: the stream is cut there, and from then on wherever they come
// again. So the cuts follow from the code that runs, not from where a recording happened to begin.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace tpu::runtime {

class Repeats {
 public:
  // Takes the next op, the `recorded`th of the recording; tells whether to cut behind it.
  bool next(uint64_t op, size_t recorded);

  // A launch of the recording found its program, or had to have it compiled.
  void launched(bool compiled) { misses_ = compiled ? misses_ + 1 : 0; }
  // Whether ops had better run one by one for a while: code that never repeats compiles anew without end.
  bool tired() {
    if (misses_ < kMostMisses) return false;
    if (++rested_ < kRest) return true;
    rested_ = 0;
    misses_ = kMostMisses / 2;
    return false;
  }

 private:
  static constexpr size_t kHistory = 1 << 13;  // ops that are remembered: the longest period
  static constexpr size_t kWindow = 16;        // so many equal ops suggest a repeat
  static constexpr size_t kLandmark = 32;      // ops that make a landmark, and a program of short periods
  static constexpr size_t kMostLandmarks = 4096;

  uint64_t at(size_t i) const { return ops_[i % kHistory]; }
  // A hash of the last `count` ops.
  uint64_t last(size_t count) const;

  std::array<uint64_t, kHistory> ops_{};
  std::array<uint64_t, kHistory> sums_{};  // polynomial hash of all ops up to each
  static constexpr int kMostMisses = 48;   // launches in a row
  static constexpr int kRest = 4096;       // ops
  int misses_ = 0, rested_ = 0;
  size_t count_ = 0;
  size_t period_ = 0, run_ = 0;                     // the last `run_` ops equal those `period_` before them
  std::unordered_map<uint64_t, size_t> seen_;       // window -> where it came last
  std::unordered_map<uint64_t, size_t> landmarks_;  // -> ops between two cuts there
};

}  // namespace tpu::runtime
