// SPDX-License-Identifier: Apache-2.0
// What an operator's schema says about a call: which arguments are tensors, numbers, attributes, and which
// are written.
//
// One row of a table serves several overloads. For the row "add.Tensor" these are `add.Tensor` itself, its
// in-place form `add_.Tensor` and its out= form `add.out`: found by comparing argument lists, because names
// of out= overloads are irregular.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "lower/tables.h"
#include "runtime/memo.h"

namespace tpu::runtime {

struct Argument {
  enum Kind : uint8_t {
    kTensor,      // Tensor, Tensor?
    kTensorList,  // Tensor[], Tensor?[]
    kNumber,      // Scalar, float: a run-time operand
    kNumberList,  // Scalar[], float[]
    kGenerator,
    kAttribute,  // part of the key by value
    kIgnored,    // says nothing about the program: device, layout, pin_memory, memory_format, non_blocking
  };
  Kind kind;
  bool written = false;
  bool has_default = false;
  double default_number = 0;  // for kNumber
};

struct Operator {
  c10::OperatorHandle handle;
  const lower::Row* row;
  const c10::FunctionSchema* functional;  // the schema that the row's rule is written for
  std::string name;                       // "add.out"
  std::vector<Argument> arguments;
  std::vector<int> written;  // arguments that the op writes, in order
  std::vector<int> hidden;   // written, though the schema does not say so (running statistics)
  size_t functional_count;   // the first so many arguments are those of `functional`
  int generator = -1;        // the argument that is a Generator
  struct Return {
    int alias = -1;  // the argument that is handed back, or -1: a new tensor
    bool list = false;
    bool number = false;  // no tensor: the meta kernel's answer is handed on
  };
  std::vector<Return> returns;
  uint64_t depends_on = 0;  // number arguments whose value the rule looks at (lower::Source::depends_on)
  Memo memo;
};

// All overloads in `aten` that the row serves.
std::vector<Operator*> operators_of(const lower::Row& row);
// Empties the memo of every operator.
void forget_plans();
// The operator object for a schema that a row serves without being registered for it (copy_).
Operator* operator_for(const char* name, const lower::Row& row);

}  // namespace tpu::runtime
