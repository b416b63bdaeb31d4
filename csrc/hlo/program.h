// SPDX-License-Identifier: Apache-2.0
// A typed SSA program of StableHLO operations: recorded op by op, then closed over its outputs and printed.
//
//   Program p;
//   Value x = p.parameter({DType::kF32, {2, 3}});
//   Closed closed = p.close({exponential(x)}, {});
//   closed.text;  closed.hash;
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "hlo/type.h"

namespace tpu::hlo {

class Program;

// A handle to one result of one op. Cheap to copy; valid as long as its program.
class Value {
 public:
  Value() = default;
  Value(Program* program, int32_t op, int32_t result) : program_(program), op_(op), result_(result) {}

  explicit operator bool() const { return program_ != nullptr; }
  Program& program() const { return *program_; }
  int32_t op() const { return op_; }
  int32_t result() const { return result_; }
  const Type& type() const;  // stays valid while ops are added
  DType dtype() const { return type().dtype; }
  const Dims& dims() const { return type().dims; }
  int rank() const { return type().rank(); }
  int64_t dim(int i) const { return type().dims.at(i); }
  int64_t numel() const { return type().numel(); }
  friend bool operator==(const Value&, const Value&) = default;

 private:
  Program* program_ = nullptr;
  int32_t op_ = -1;
  int32_t result_ = 0;
};

using Hash = std::array<uint64_t, 2>;

// One recorded op. A region (the body of a reduce, a sort, a loop) is a program of its own.
struct Op {
  const char* name;  // "stablehlo.add"; must be a literal
  std::vector<Value> operands;
  std::string attributes;  // printed attribute dictionary without braces; may be empty
  std::vector<std::shared_ptr<const Program>> regions;
  std::vector<Type> results;
};

// What the compiler gets.
struct Closed {
  std::string text;             // a StableHLO module with one public function "main"; empty if not asked for
  Hash hash;                    // of structure, types and donation, not of names; equal across processes
  std::vector<int> parameters;  // which of the program's parameters are arguments of main, in order
  std::vector<Type> outputs;
};

class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Appends a parameter. Parameters are numbered in order of creation.
  Value parameter(Type type);
  int parameter_count() const { return static_cast<int>(parameters_.size()); }
  // The number of the parameter that `value` is, or -1.
  int parameter_index(Value value) const;

  // Appends an op and returns its first result. An op equal to an earlier one is not recorded again.
  Value add(Op op);
  const Op& op(int32_t index) const { return ops_[index]; }
  int32_t op_count() const { return static_cast<int32_t>(ops_.size()); }

  // For regions: what the region's terminator returns. Ends the region.
  void set_return(std::vector<Value> values);
  const std::vector<Value>& returned() const { return returned_; }
  // True if some op must neither be merged with an equal one nor moved.
  bool has_side_effect() const { return side_effect_; }
  const Hash& region_hash() const { return region_hash_; }  // of a region, once it has ended

  // What `outputs` need, parameters left out.
  struct Extent {
    int ops = 0;
    int64_t elements = 0;  // of all results together
  };
  Extent extent(std::span<const Value> outputs) const;

  // An output that may take over the memory of a parameter of the same type.
  struct Donation {
    int parameter;  // index as in parameter_index
    int output;     // index into outputs
  };
  // The program of just those ops that `outputs` need. Ops that nobody needs are left out, and so are
  // parameters. Without text it is much cheaper: enough to look the hash up in a cache.
  // `all_parameters`: also keep parameters that nobody needs.
  Closed close(std::span<const Value> outputs, std::span<const Donation> donations = {}, bool text = true,
               bool all_parameters = false) const;

 private:
  friend struct Layout;

  std::deque<Op> ops_;  // a parameter is an op named "parameter"; a deque, so that references stay valid
  std::vector<int32_t> parameters_;
  std::vector<Value> returned_;
  std::vector<Hash> local_;  // one per op: name, attributes, regions and result types, but not the operands
  std::vector<Hash> keys_;   // one per op: local_ and the operands
  std::vector<int32_t> slots_;  // open addressing by key: index of an op + 1, 0 if free
  Hash region_hash_ = {};
  bool side_effect_ = false;
};

inline const Type& Value::type() const { return program_->op(op_).results[result_]; }

// An ill-typed op: a defect of our own code, never the user's.
struct TypeError : std::logic_error {
  using std::logic_error::logic_error;
};

// Asks for a report: raised when our own code built an ill-typed op. Has the op's name and the types it got.
[[noreturn]] void type_error(const char* op, const std::string& expected, std::span<const Value> got);

}  // namespace tpu::hlo
