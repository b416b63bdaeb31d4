// SPDX-License-Identifier: Apache-2.0
// Tells a user who waits for the compiler what is being waited for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/cache.h"

namespace tpu::runtime {

// While it lives a program is compiled. After 5 s it says so on stderr: on a terminal as a line that counts
// the seconds, elsewhere as one line, and one more at the end.
class Progress {
 public:
  explicit Progress(const CompileNote& note);
  ~Progress();
  Progress(const Progress&) = delete;

 private:
  void watch();

  std::string what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tpu::runtime
