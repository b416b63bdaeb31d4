// SPDX-License-Identifier: Apache-2.0
// Compiled programs, in memory and on disk.
//
// On disk each program is a file named by the hash of the program, of the compile options, and of the
// plugin's build. Entries are machine code that this process will run, so a folder that others can write to
// is not used. Files appear whole (written aside, then renamed), so several processes may share the folder. A
// damaged entry is compiled again.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hlo/program.h"
#include "pjrt/client.h"
#include "runtime/location.h"

namespace tpu::runtime {

struct HashOfHash {
  size_t operator()(const hlo::Hash& hash) const { return hash[0]; }
};

// For whom a program is compiled, for explain().
struct CompileNote {
  const char* op;  // the first one; a literal
  Location where;
  int ops;          // of ATen
  std::string why;  // what is new about it; empty: all of it
};
struct Compilation {
  CompileNote note;
  double seconds;
  bool from_disk;
};

// How much the compiler is to try: what a program costs to compile should be in keeping with what it costs to
// run.
enum class Effort : uint8_t {
  kLight,  // results of few elements
  kOneOp,  // a few ops
  kFull,
};

class ProgramCache {
 public:
  using Extent = hlo::Program::Extent;
  // `extent` and `text` say at a miss how large the program is and what it is.
  std::shared_ptr<const pjrt::Executable> get(const hlo::Hash& program, const CompileNote& note,
                                              const std::function<Extent()>& extent,
                                              const std::function<std::string()>& text);
  bool has(const hlo::Hash& program) const { return programs_.contains(program); }
  // Drops all programs in memory, and what holds them. They come back from disk.
  void forget();
  // What was compiled or loaded lately, oldest first.
  const std::deque<Compilation>& log() const { return log_; }
  // Keeps the text of each program that is asked for from now on, for checks with another compiler.
  void collect(bool on);
  std::vector<std::string> take_collected() { return std::exchange(collected_, {}); }

 private:
  std::shared_ptr<const pjrt::Executable> load(const std::string& path);
  void keep(const hlo::Hash& program, std::shared_ptr<const pjrt::Executable> executable);
  void remember(Compilation compilation);
  void store(const std::string& path, const pjrt::Executable& executable);
  const std::string& folder();  // empty: off

  std::unordered_map<hlo::Hash, std::shared_ptr<const pjrt::Executable>, HashOfHash> programs_;
  const std::string& options(Effort effort);

  std::string options_[3], folder_;
  bool ready_ = false;
  size_t kept_ = 0;
  bool collects_ = false;
  std::vector<std::string> collected_;
  std::deque<Compilation> log_;
};

ProgramCache& program_cache();  // under lock()

}  // namespace tpu::runtime
