// SPDX-License-Identifier: Apache-2.0
// A recording: ops collected into one program, with what its parameters stand for and which arrays wait for
// its results.
//
// All modes use it; they differ in when launch() is called. Strict eager records one op and launches. Fused
// eager lets ops collect. A capture (runtime/capture.h) records a whole graph and makes a plan of it instead
// of launching.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "hlo/program.h"
#include "runtime/cache.h"
#include "runtime/chip.h"
#include "runtime/padding.h"

namespace tpu::runtime {

// Where a parameter's buffer comes from when a memoised call runs again.
struct Origin {
  enum Kind : uint8_t {
    kArray,   // the array of the storage of tensor `index` of the call
    kStart,   // where the view of tensor `index` starts along level `element` (runtime/views.h), or its
              // storage offset
    kScalar,  // number `element` of argument `index`, as `dtype`
    kRng,     // the state of the generator in argument `index` (-1: the chip's own), before it moves on by
              // `count`
    kHostTensor,  // the elements of argument `index`, a CPU tensor that a graph copies to the chip
    kHeld,        // an array that the recording holds itself
  };
  static constexpr int kWholeOffset = -1;  // as `element` of kStart
  Kind kind = kHeld;
  int index = 0;
  int element = 0;
  hlo::DType dtype = hlo::DType::kF32;
  uint64_t count = 0;
};

class Recording {
 public:
  // A capturing recording never launches: its values do not exist until the compiled program is called.
  explicit Recording(Chip& chip, bool capturing = false)
      : chip_(chip), capturing_(capturing), program_(std::make_unique<hlo::Program>()) {}
  ~Recording();
  Recording(const Recording&) = delete;

  Chip& chip() const { return chip_; }
  bool capturing() const { return capturing_; }
  hlo::Program& program() { return *program_; }

  // ---- values
  // The value of an array here: its own pending value, or a parameter (one for each array).
  hlo::Value value_of(const ArrayRef& array, Origin origin = {});
  // A parameter of its own, also if an equal operand is there: programs must not depend on numbers being
  // equal.
  hlo::Value operand(ArrayRef array, Origin origin);
  // A parameter without an array, for captures.
  hlo::Value placeholder(const hlo::Type& type, Origin origin);
  // The array that will hold `value`. If the value is a parameter, that parameter's array.
  ArrayRef wrap(hlo::Value value);

  // A storage had `before` and now has `after`: the launch may give the memory of the one to the other.
  void replaced(const ArrayRef& before, const ArrayRef& after);
  void replaced_parameter(int parameter, const ArrayRef& after) {
    if (parameter >= 0) roots_[after.get()] = parameter;
  }
  // `ok` must hold at run time (lower::Source::require).
  void require(hlo::Value ok, const char* what, std::string message, std::string op, Location where);
  size_t check_count() const { return checks_.size(); }
  void drop_checks(size_t from) { checks_.resize(from); }

  // ---- launching
  // What was compiled and which of its parts are what; for plans.
  struct Compiled {
    std::shared_ptr<const pjrt::Executable> executable;
    std::vector<int> parameters;  // argument k is this recording's parameter parameters[k]
    std::vector<Array*> arrays;   // output k is the value of arrays[k]; outputs behind them are checks
    std::vector<hlo::Type> outputs;
    struct Donation {
      int argument, output;
    };
    std::vector<Donation> donations;
    std::shared_ptr<const Padding> padding;  // of a program for several sizes; null: for just these
  };
  // The program of the arrays that are still wanted (`wanted`: of just those).
  Compiled compile(const std::vector<Array*>* wanted = nullptr);
  // Runs what compile() gave; its arrays become concrete, and the recording is empty again. If it fails the
  // recording is empty too, and its arrays have no value. `op`: what to call the launch in messages.
  // `held`: the references that the caller keeps on each array that was replaced, to undo a launch that
  // fails.
  void execute(const Compiled& compiled, const char* op = nullptr, int held = 0);
  // compile() and execute(), if there is anything to do.
  void launch(const char* op = nullptr);
  // Somebody needs a value now: launches, or raises in a capture.
  void force();
  bool empty() const { return live_ == 0 && checks_.empty(); }
  int32_t size() const { return program_->op_count(); }
  int ops() const { return ops_; }          // of ATen
  size_t pending() const { return live_; }  // arrays that wait for it
  void clear();
  // Called for each op that is recorded, for messages.
  void note(const char* op, Location where) {
    if (!first_op_) {
      first_op_ = op;
      first_where_ = where;
    }
    ++ops_;
  }

  struct Input {
    ArrayRef array;  // empty for placeholders
    Origin origin;
    hlo::Value value;
  };
  const std::vector<Input>& inputs() const { return inputs_; }
  struct PendingCheck {
    hlo::Value ok;
    const char* what;
    std::string message, op;
    Location where;
  };
  const std::vector<PendingCheck>& checks() const { return checks_; }

  // ---- for Array
  size_t enlist(Array& array);
  void forget(Array& array);

 private:
  hlo::Value parameter(const hlo::Type& type, Input input);

  Chip& chip_;
  bool capturing_;
  std::unique_ptr<hlo::Program> program_;
  std::vector<Input> inputs_;                       // by parameter
  std::unordered_map<const Array*, int> input_of_;  // parameter of an array
  std::unordered_map<const Array*, int> roots_;     // pending array -> parameter whose storage it took over
  std::vector<Array*> pending_;                     // null: gone
  size_t live_ = 0;
  std::vector<PendingCheck> checks_;
  const char* first_op_ = nullptr;
  Location first_where_;
  int ops_ = 0;
};

}  // namespace tpu::runtime
