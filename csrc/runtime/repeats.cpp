// SPDX-License-Identifier: Apache-2.0
// Finding repeats in the stream of ops.
#include "runtime/repeats.h"

namespace tpu::runtime {
namespace {

constexpr uint64_t kBase = 0x9E3779B97F4A7C15u;  // odd, so that its powers do not vanish

constexpr uint64_t power(uint64_t base, size_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 31)) * 0xD6E8FEB86659FD93u;
  return x ^ (x >> 32);
}

}  // namespace

uint64_t Repeats::last(size_t count) const {
  static constexpr uint64_t kWindowPower = power(kBase, kWindow), kLandmarkPower = power(kBase, kLandmark);
  const uint64_t before = count_ > count ? sums_[(count_ - count - 1) % kHistory] : 0;
  return mixed(sums_[(count_ - 1) % kHistory] - before * (count == kWindow ? kWindowPower : kLandmarkPower));
}

bool Repeats::next(uint64_t op, size_t recorded) {
  op = mixed(op);
  const uint64_t sum = (count_ ? sums_[(count_ - 1) % kHistory] : 0) * kBase + op;
  ops_[count_ % kHistory] = op;
  sums_[count_ % kHistory] = sum;
  ++count_;
  if (count_ < kWindow) return false;

  if (period_ && at(count_ - 1 - period_) == op) {
    ++run_;
  } else {
    period_ = run_ = 0;
    if (auto found = seen_.find(last(kWindow)); found != seen_.end()) {
      if (const size_t distance = count_ - found->second; distance < kHistory) {
        period_ = distance;
        run_ = kWindow;
      }
    }
  }
  if (seen_.size() >= 4 * kHistory) seen_.clear();
  seen_[last(kWindow)] = count_;
  if (count_ < kLandmark) return false;

  // Short periods are taken several times over: a program of few ops is not worth a launch.
  const size_t length = period_ >= kWindow ? period_
                        : period_          ? period_ * ((kLandmark + period_ - 1) / period_)
                                           : 0;
  if (length && run_ >= length && run_ % length == 0) {
    if (landmarks_.size() >= kMostLandmarks) landmarks_.clear();
    landmarks_.emplace(last(kLandmark), length);
  }
  const auto landmark = landmarks_.find(last(kLandmark));
  return landmark != landmarks_.end() && recorded >= landmark->second;
}

}  // namespace tpu::runtime
