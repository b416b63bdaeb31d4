// SPDX-License-Identifier: Apache-2.0
// The state of pad_program: what each value of the original has become, and how its dims are padded.
#pragma once

#include <string_view>
#include <unordered_map>

#include "hlo/infer.h"
#include "hlo/padded.h"

namespace tpu::hlo {

// A dim as it lies in memory: factors, outermost first. [4 tokens, n] seen as one dim of 4n is {4, n}: four
// runs with padding behind each. A dim of 4n that came so is the one factor {4n}: padding at the end.
struct Factor {
  Affine size;
  bool free = false;  // all elements along it are equal, so it may be taken to lie in any other way
  friend bool operator==(const Factor&, const Factor&) = default;
};
using PaddedDim = std::vector<Factor>;
using PaddedDims = std::vector<PaddedDim>;

bool is_padded(const PaddedDim& dim);
// The way in which both can be seen to lie; raises Unpaddable if there is none.
PaddedDim merged(const PaddedDim& a, const PaddedDim& b);
PaddedDim packed(const PaddedDim& dim);
// The layout of `from`, reshaped to the sizes `to`.
PaddedDims reshaped(const PaddedDims& from, const std::vector<Affine>& to);

class Padder {
 public:
  Padder(const Program& program, const Fit& fit, int64_t bound);

  void parameter(int32_t op, const Type& type);
  void add(int32_t op);
  Value output(Value value, const Type& type);  // padded on to `type`
  void end_parameters();                        // n comes behind them
  Program& program() { return *made_; }
  std::unique_ptr<Program> take() { return std::move(made_); }

  // ---- numbers of the original
  std::vector<Affine> dims(Value value) const;
  Type type_at_bound(Value value) const;

 private:
  struct Item {
    Value value;
    PaddedDims layout;
  };
  struct Now {  // the op that is being added
    const Op* op;
    int32_t index;
    size_t numbers;  // of its attributes: where they begin in the fit
  };
  using Handler = void (Padder::*)();
  static const std::unordered_map<std::string_view, Handler>& handlers();

  // ---- ops by kind
  void elementwise();
  void constant();
  void iota();
  void broadcast();
  void reshape();
  void transpose();
  void reduce();
  void dot();
  void concatenate();
  void slice();
  void dynamic_slice();
  void dynamic_update_slice();
  void pad();
  void gather();
  void scatter();
  void reduce_window();
  void sort();
  void top_k();
  void reverse();
  void convolution();

  // ---- of the present op
  const Item& operand(size_t i) const { return item(now_.op->operands[i]); }
  std::vector<Affine> result_dims(size_t result = 0) const {
    return dims({nullptr, now_.index, static_cast<int32_t>(result)});
  }
  std::vector<Affine> attribute(const char* name) const;
  std::vector<int> fixed(const char* name) const;  // ... that may not depend on n
  std::string attributes_at_bound() const;
  bool depends_on_n() const;  // any of its numbers, or of its operands' dims
  // The same op over `operands`, with its numbers at the bound.
  void emit(std::vector<Value> operands, std::vector<PaddedDims> layouts);
  void put(Value value, PaddedDims layout);

  // ---- pieces
  const Item& item(const Value& value) const { return items_[value.op()][value.result()]; }
  PaddedDims simple(const std::vector<Affine>& dims, bool free = false) const;
  Value size(Affine affine);                                   // 0-d kS32
  Value mask(const Item& item, const std::vector<int>& dims);  // of its dims; empty if nothing is padded
  Value masked(const Item& item, const std::vector<int>& dims, Value fill);  // fill: 0-d
  Value whole(Value fill, const Dims& dims);
  // Elements [start, start + size) of dim `dim`; start 0-d, within the true size.
  Value take(Value x, int dim, Value start, int64_t size);
  [[noreturn]] void refuse(const char* why) const;

  const Program& original_;
  const Fit& fit_;
  int64_t bound_;
  std::unique_ptr<Program> made_ = std::make_unique<Program>();
  Value n_;
  std::vector<size_t> numbers_;  // per op: where its numbers begin
  std::vector<std::vector<Item>> items_;
  Now now_{};
};

}  // namespace tpu::hlo
