// SPDX-License-Identifier: Apache-2.0
// What programs have in common when they differ only in sizes.
//
// The *skeleton* of a program is all of it but the dims of its types and the sizes in its attributes. Two
// programs of one skeleton, recorded for 17 and for 18 tokens, tell how each number follows from the size
// that changed; from then on a third program can be recognised as the one for n tokens.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hlo/program.h"

namespace tpu::hlo {

// Which parameter op `op` is, or -1.
int parameter_at(const Program& program, int32_t op);

// The part of a program that `outputs` need, with nothing else in it.
struct Extract {
  std::unique_ptr<Program> program;
  std::vector<Value> outputs;
  std::vector<int> parameters;  // which parameters of the whole program are left
};
Extract extract(const Program& program, std::span<const Value> outputs);

struct Skeleton {
  Hash hash;
  std::vector<int64_t> numbers;  // op by op: dims of the results, then the sizes in the attributes
};
// Of a program whose ops are all needed, as extract() gives it.
Skeleton skeleton_of(const Program& program, std::span<const Value> outputs);

// scale * n + offset
struct Affine {
  int64_t scale = 0, offset = 0;
  int64_t at(int64_t n) const { return scale * n + offset; }
  bool fixed() const { return scale == 0; }
  friend bool operator==(const Affine&, const Affine&) = default;
};

// A size that grows does so by at most one part in so many at a time: a cache by a token, a prompt by a few.
constexpr int64_t kGrowth = 8;
inline bool grows(int64_t before, int64_t after) {
  return after > before && (after - before) * kGrowth <= std::max(after, kGrowth);
}

// How the numbers of a skeleton depend on one size n.
struct Fit {
  std::vector<Affine> numbers;
  size_t base;  // n is numbers[base]
};
// Nothing if the two do not differ, or not by whole multiples.
std::optional<Fit> fit(std::span<const int64_t> a, std::span<const int64_t> b);
// A guess from one program alone, as extract() gives it: it is a step of something that grows, because it
// appends to a parameter (a cache of keys, a mask), and what is connected to that and has the same size
// grows, too. Nothing if it does not append.
std::optional<Fit> guess(const Program& program);
// The n for which `fit` gives these numbers, if there is one.
std::optional<int64_t> solve(const Fit& fit, std::span<const int64_t> numbers);

// Hands each integer of an attribute text to `number` and the text between to `rest`.
void scan_attributes(std::string_view text, const std::function<void(int64_t)>& number,
                     const std::function<void(std::string_view)>& rest);
// The part of the attributes whose integers are sizes or places; numbers of dims, for instance, are not. Of
// constants it is the value.
std::string_view sizes_in(const Op& op);

}  // namespace tpu::hlo
