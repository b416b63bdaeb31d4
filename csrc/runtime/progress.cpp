// SPDX-License-Identifier: Apache-2.0
// The line that counts the seconds of a long compilation.
#include "runtime/progress.h"

#include <unistd.h>

#include <cstdio>

namespace tpu::runtime {

Progress::Progress(const CompileNote& note) {
  what_ = std::to_string(note.ops) + (note.ops == 1 ? " op (" : " ops (first: ") + note.op;
  if (const std::string place = describe(note.where); !place.empty()) what_ += ", " + place;
  what_ += ")";
  thread_ = std::thread([this] { watch(); });
}

Progress::~Progress() {
  {
    std::lock_guard guard(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Progress::watch() {
  using std::chrono::seconds;
  std::unique_lock guard(mutex_);
  if (changed_.wait_for(guard, seconds(5), [this] { return done_; })) return;
  const bool terminal = ::isatty(2) != 0;
  const auto elapsed = [this] {
    return static_cast<double>((std::chrono::steady_clock::now() - start_).count()) * 1e-9;
  };
  if (!terminal) std::fprintf(stderr, "torch_tpu: compiling a program of %s ...\n", what_.c_str());
  do {
    if (terminal)
      std::fprintf(stderr, "\rtorch_tpu: compiling a program of %s, %.0f s", what_.c_str(), elapsed());
    std::fflush(stderr);
  } while (!changed_.wait_for(guard, seconds(1), [this] { return done_; }));
  std::fprintf(stderr,
               terminal ? "\rtorch_tpu: compiled a program of %s in %.1f s\n"
                        : "torch_tpu: compiled a program of %s in %.1f s\n",
               what_.c_str(), elapsed());
}

}  // namespace tpu::runtime
