// SPDX-License-Identifier: Apache-2.0
// What the op families share: checks of operands, result shapes, and the text of attributes.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "hlo/ops.h"

namespace tpu::hlo {

// Raises type_error unless `ok`. Costs nothing otherwise: the text is a literal.
inline void check(bool ok, const char* op, const char* expected, std::initializer_list<Value> got) {
  if (!ok) [[unlikely]]
    type_error(op, expected, std::span<const Value>(got.begin(), got.size()));
}
inline void check(bool ok, const char* op, const char* expected, const std::vector<Value>& got) {
  if (!ok) [[unlikely]]
    type_error(op, expected, got);
}

// True if all of `dims` are in [0, rank) and no two are equal.
bool distinct(const std::vector<int>& dims, int rank);
bool contains(const std::vector<int>& dims, int dim);
bool all_values(const std::vector<Value>& xs);  // none is empty, and there is at least one

// One size of the result of a window of `size` that slides over `dim`; -1 if it cannot be.
int64_t window_extent(int64_t dim, int64_t size, int64_t stride, int64_t base_dilation,
                      int64_t window_dilation, std::pair<int64_t, int64_t> padding);
// Fills in the defaults, and gives the dims of the result; raises for `op` if they do not fit.
Window filled(const Window& window, const char* op, Value x);
Dims window_dims(const Window& filled, const char* op, Value x);

Dims gather_shape(Value x, Value indices, const GatherDims& dims, const Dims& slice_sizes);
// Checks `updates` against what the other arguments ask for.
void check_scatter(Value x, Value indices, Value updates, const ScatterDims& dims);
Dims dot_shape(Value x, Value y, const DotDims& dims);

// Attributes, comma-separated: "k = 2 : i64, dims = array<i64: 0, 1>".
class Attributes {
 public:
  Attributes& integer(const char* name, int64_t value);              // name = 2 : i64
  Attributes& flag(const char* name, bool value);                    // name = true
  Attributes& verbatim(const char* name, const std::string& value);  // name = value
  Attributes& string(const char* name, const std::string& value);    // name = "value"
  template <class Container>
  Attributes& array(const char* name, const Container& values) {  // name = array<i64: 1, 2>
    begin(name) += values.empty() ? "array<i64" : "array<i64: ";
    join(values);
    text_ += '>';
    return *this;
  }
  Attributes& padding(const char* name, const std::vector<std::pair<int64_t, int64_t>>& values);
  // Parts of a structured attribute: open("x", "#stablehlo.dot<"), list("a", {..}), ..., shut().
  Attributes& open(const char* name, const char* prefix);
  Attributes& list(const char* name, const std::vector<int>& values);  // name = [0, 1]
  Attributes& number(const char* name, int64_t value);                 // name = 2
  Attributes& shut();
  std::string take() { return std::move(text_); }

 private:
  std::string& begin(const char* name);
  template <class Container>
  void join(const Container& values) {
    bool first = true;
    for (int64_t value : values) {
      if (!first) text_ += ", ";
      first = false;
      append_int(text_, value);
    }
  }
  std::string text_;
  bool first_ = true;
};

// Of a transpose: its attribute text is all that is recorded.
std::vector<int> permutation_of(const Op& op);

// The results of an op that was just added.
std::vector<Value> results_of(Value first, size_t count);

// The region (2 * dtypes.size() 0-d parameters) of a body. Interleaved: left 0, right 0, left 1, ... as sort
// wants it.
std::shared_ptr<const Program> make_region(const std::vector<DType>& dtypes, const Body& body,
                                           bool interleaved = false);
// Regions of a plain binary function are made once per dtype and thread.
std::shared_ptr<const Program> binary_region(DType dtype, Binary body);
std::shared_ptr<const Program> compare_region(DType dtype, Direction direction);
std::shared_ptr<const Program> replace_region(DType dtype);  // returns its right argument

}  // namespace tpu::hlo
