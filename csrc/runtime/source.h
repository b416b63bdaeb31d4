// SPDX-License-Identifier: Apache-2.0
// How a rule's arguments become values of a recording.
#pragma once

#include "lower/rule.h"
#include "runtime/call.h"
#include "runtime/capture.h"
#include "runtime/recording.h"
#include "runtime/schema.h"

namespace tpu::runtime {

class CallSource final : public lower::Source {
 public:
  CallSource(Operator& op, const Call& call, Recording& recording, Location where)
      : op_(op), call_(call), recording_(recording), where_(where) {}

  hlo::Program& program() override { return recording_.program(); }
  hlo::Value tensor(const at::Tensor& tensor) override;
  hlo::Value scalar(const c10::IValue& number, size_t arg, size_t element, hlo::DType dtype) override;
  void depends_on(size_t arg) override { op_.depends_on |= uint64_t{1} << arg; }
  hlo::Value rng_state(const c10::IValue& generator, uint64_t count) override;
  void require(hlo::Value ok, const char* what, const std::string& message) override;

  // Stores `elements` (of the tensor's sizes and dtype) where tensor `index` of the call sees, in a new array
  // of its storage. False if there is nothing to store.
  bool write(int index, hlo::Value elements);

 private:
  hlo::Value base(int index);
  StartOf starts(int index);

  Operator& op_;
  const Call& call_;
  Recording& recording_;
  Location where_;
};

// Gives the state (seed, offset) of a generator (None: the chip's own) and moves it on by `count`.
using RngHook = std::pair<uint64_t, uint64_t> (*)(const c10::IValue& generator, int chip, uint64_t count);
void set_rng_hook(RngHook hook);
ArrayRef rng_array(Chip& chip, const c10::IValue& generator, uint64_t count);

}  // namespace tpu::runtime
