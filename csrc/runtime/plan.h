// SPDX-License-Identifier: Apache-2.0
// A plan: a compiled program with a note for each argument where it comes from and for each result where it
// goes, so that a call that was seen before runs without a recording.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "runtime/call.h"
#include "runtime/recording.h"

namespace tpu::runtime {

struct Plan {
  std::shared_ptr<const pjrt::Executable> executable;  // null: nothing to compute
  std::vector<Origin> inputs;
  std::vector<hlo::Type> input_types;
  std::vector<bool> needed;     // by input: an argument of the program, or passed on as a result
  std::vector<bool> handed_on;  // by input: becomes a result or the contents of a written storage as it is
  std::vector<int> arguments;   // argument k of the program is input arguments[k]
  std::vector<hlo::Type> outputs;
  int64_t output_bytes = 0;
  std::vector<Recording::Compiled::Donation> donations;
  std::shared_ptr<const Padding> padding;  // of a program for several sizes
  // Draws from generators in the order of the program, also those whose numbers are not used.
  struct Draw {
    int argument;  // that is the generator, or -1
    uint64_t count;
    int input;  // or -1
  };
  std::vector<Draw> draws;
  std::vector<ArrayRef> held;         // arrays that belong to the plan (Origin::kHeld, by index)
  std::vector<c10::Storage> closure;  // storages that a graph reads though they are no arguments; they follow
                                      // the tensors of the call in numbering
  const char* op = "";                // kept for good: the log of launches points to it

  // An array that the call makes or passes on: output k if k >= 0, else that of input -1 - k.
  using Slot = int;
  struct Write {
    int tensor;  // of the call: its storage gets the array
    Slot slot;
  };
  std::vector<Write> writes;
  struct NewStorage {
    Slot slot;  // kEmpty: nobody wrote it
    size_t bytes;
    hlo::Type made_as;
  };
  static constexpr Slot kEmpty = INT32_MIN;
  std::vector<NewStorage> storages;
  struct NewTensor {
    int storage;  // of `storages` if >= 0; -1 - i: the storage of tensor i of the call; kEmpty: an undefined
                  // tensor
    c10::ScalarType dtype;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
    bool relative = false;  // the offset counts from that of the call's tensor
  };
  std::vector<NewTensor> results;
  struct CheckNote {
    int output;
    const char* what;
    std::string message, op;
  };
  std::vector<CheckNote> checks;

  // Launches, writes the written storages, and returns the new tensors. Under lock().
  std::vector<at::Tensor> run(const Call& call) const;
};

const char* keep_name(const std::string& name);

// Fills in what the compiled recording needs and makes; writes, storages and results are the caller's to say.
void fill_plan(Plan& plan, const Recording& recording, const Recording::Compiled& compiled, const char* op);

}  // namespace tpu::runtime
