// SPDX-License-Identifier: Apache-2.0
// Skeletons of programs, and the numbers that fill them.
#include "hlo/skeleton.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "hlo/hash.h"

namespace tpu::hlo {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// What a number may not touch: parts of names, of hexadecimal and of decimal numbers.
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '#';
}

}  // namespace

int parameter_at(const Program& program, int32_t op) {
  return program.parameter_index({const_cast<Program*>(&program), op, 0});
}

Extract extract(const Program& program, std::span<const Value> outputs) {
  int32_t end = 0;
  for (const Value& value : outputs) end = std::max(end, value.op() + 1);
  std::vector<bool> live(end);
  for (const Value& value : outputs) live[value.op()] = true;
  for (int32_t i = end - 1; i >= 0; --i)
    if (live[i])
      for (const Value& operand : program.op(i).operands) live[operand.op()] = true;
  Extract result{std::make_unique<Program>(), {}, {}};
  std::vector<int32_t> moved(end, -1);
  const auto move = [&](const Value& value) {
    return Value(result.program.get(), moved[value.op()], value.result());
  };
  for (int32_t i = 0; i < end; ++i) {
    if (!live[i]) continue;
    const Op& op = program.op(i);
    if (const int parameter = parameter_at(program, i); parameter >= 0) {
      moved[i] = result.program->parameter(op.results[0]).op();
      result.parameters.push_back(parameter);
      continue;
    }
    Op copy = op;
    for (Value& operand : copy.operands) operand = move(operand);
    moved[i] = result.program->add(std::move(copy)).op();
  }
  for (const Value& value : outputs) result.outputs.push_back(move(value));
  return result;
}

std::string_view sizes_in(const Op& op) {
  const std::string_view text = op.attributes, name = op.name;
  if (name == "stablehlo.constant") return text.substr(0, text.rfind(" : "));
  if (name == "stablehlo.gather") return text.substr(text.rfind("slice_sizes"));
  for (const char* sized :
       {"stablehlo.slice", "stablehlo.dynamic_slice", "stablehlo.pad", "stablehlo.reduce_window"})
    if (name == sized) return text;
  return text.substr(0, 0);
}

void scan_attributes(std::string_view text, const std::function<void(int64_t)>& number,
                     const std::function<void(std::string_view)>& rest) {
  size_t from = 0;
  for (size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      ++i;
      continue;
    }
    size_t start = i, end = i;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (start > from && text[start - 1] == '-') --start;
    const bool alone =
        (start == 0 || !is_word(text[start - 1])) && (end == text.size() || !is_word(text[end]));
    int64_t value = 0;
    if (alone && std::from_chars(text.data() + start, text.data() + end, value).ec == std::errc()) {
      rest(text.substr(from, start - from));
      number(value);
      from = end;
    } else {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    i = end;
  }
  rest(text.substr(from));
}

Skeleton skeleton_of(const Program& program, std::span<const Value> outputs) {
  Skeleton result;
  Hasher hasher;
  const auto value = [&](const Value& v) {
    hasher.word(static_cast<uint64_t>(v.op()) << 32 | static_cast<uint32_t>(v.result()));
  };
  for (int32_t i = 0; i < program.op_count(); ++i) {
    const Op& op = program.op(i);
    hasher.bytes(op.name);
    for (const Type& type : op.results) {
      hasher.word(static_cast<uint64_t>(type.dtype) << 32 | type.dims.size());
      result.numbers.insert(result.numbers.end(), type.dims.begin(), type.dims.end());
    }
    const std::string_view text = op.attributes, sizes = sizes_in(op);
    const auto from = static_cast<size_t>(sizes.data() - text.data());
    hasher.bytes(text.substr(0, from));
    scan_attributes(
        sizes, [&](int64_t number) { result.numbers.push_back(number); },
        [&](std::string_view rest) { hasher.bytes(rest); });
    // Behind the value of a constant stands its type, which has been counted.
    if (std::string_view(op.name) != "stablehlo.constant") hasher.bytes(text.substr(from + sizes.size()));
    for (const auto& region : op.regions) hasher.hash(region->region_hash());
    for (const Value& operand : op.operands) value(operand);
  }
  hasher.word(outputs.size());
  for (const Value& output : outputs) value(output);
  result.hash = hasher.done();
  return result;
}

std::optional<Fit> fit(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() != b.size()) return {};
  Fit result{std::vector<Affine>(a.size()), a.size()};
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] &&
        (result.base == a.size() || std::abs(b[i] - a[i]) < std::abs(b[result.base] - a[result.base])))
      result.base = i;
  if (result.base == a.size()) return {};
  const int64_t n = b[result.base], step = n - a[result.base];
  for (size_t i = 0; i < a.size(); ++i) {
    if ((b[i] - a[i]) % step != 0) return {};
    const int64_t scale = (b[i] - a[i]) / step;
    result.numbers[i] = {scale, b[i] - scale * n};
  }
  return result;
}

namespace {

// What grows in a program that appends to parameters, and by how much its sizes differ.
struct Growth {
  const Program& program;
  int64_t n = 0;                                                             // 0: nothing is appended
  std::unordered_map<int64_t, int64_t> offsets;                              // size -> how much more than n
  std::vector<bool> growing = std::vector<bool>(program.op_count(), false);  // by op: its results

  void find_appended() {
    constexpr int64_t kLeast = 4;  // smaller sizes are everywhere
    for (int32_t i = 0; i < program.op_count(); ++i) {
      const Op& op = program.op(i);
      if (std::string_view(op.name) != "stablehlo.concatenate" || op.operands.size() != 2) continue;
      if (parameter_at(program, op.operands[0].op()) < 0) continue;
      const Dims &before = op.operands[0].dims(), &after = op.results[0].dims;
      const size_t dim = std::ranges::mismatch(before, after).in1 - before.begin();
      if (dim == before.size() || before[dim] < kLeast || !grows(before[dim], after[dim])) continue;
      const int64_t size = before[dim];
      if (n == 0) n = size;
      if (size != n && !grows(std::min(size, n), std::max(size, n))) continue;
      offsets[size] = size - n;
      offsets[after[dim]] = after[dim] - n;
      growing[i] = growing[op.operands[0].op()] = true;
    }
  }

  bool may_grow(int32_t op) const {
    return std::ranges::any_of(program.op(op).results, [&](const Type& type) {
      return std::ranges::any_of(type.dims, [&](int64_t d) { return offsets.contains(d); });
    });
  }

  // Parameters of which only parts are read are connected to nothing: one of such a size is taken to grow.
  void add_read_in_parts() {
    std::vector<bool> whole(program.op_count(), false);
    for (int32_t i = 0; i < program.op_count(); ++i) {
      const std::string_view name = program.op(i).name;
      if (name != "stablehlo.slice" && name != "stablehlo.dynamic_slice")
        for (const Value& operand : program.op(i).operands) whole[operand.op()] = true;
    }
    for (int32_t i = 0; i < program.op_count(); ++i)
      if (parameter_at(program, i) >= 0 && !whole[i] && may_grow(i)) growing[i] = true;
  }

  // Equal sizes are the same one only where ops connect them: half a head may have as many elements.
  void spread() {
    for (bool more = true; std::exchange(more, false);)
      for (int32_t i = 0; i < program.op_count(); ++i) {
        const auto& operands = program.op(i).operands;
        const auto reach = [&](int32_t op) {
          if (growing[op] || !may_grow(op)) return;
          growing[op] = more = true;
        };
        if (std::ranges::any_of(operands, [&](const Value& operand) { return growing[operand.op()]; }))
          reach(i);
        if (growing[i])
          for (const Value& operand : operands) reach(operand.op());
      }
  }
};

}  // namespace

std::optional<Fit> guess(const Program& program) {
  Growth growth{program};
  growth.find_appended();
  if (growth.n == 0) return {};
  growth.add_read_in_parts();
  growth.spread();
  Fit result{{}, SIZE_MAX};
  for (int32_t i = 0; i < program.op_count(); ++i) {
    const auto add = [&](int64_t number) {
      const auto offset = growth.offsets.find(number);
      const bool grown = growth.growing[i] && offset != growth.offsets.end();
      if (grown && offset->second == 0) result.base = std::min(result.base, result.numbers.size());
      result.numbers.push_back(grown ? Affine{1, offset->second} : Affine{0, number});
    };
    const Op& op = program.op(i);
    for (const Type& type : op.results) std::ranges::for_each(type.dims, add);
    scan_attributes(sizes_in(op), add, [](std::string_view) {});
  }
  return result;
}

std::optional<int64_t> solve(const Fit& fit, std::span<const int64_t> numbers) {
  if (numbers.size() != fit.numbers.size()) return {};
  const int64_t n = numbers[fit.base];
  for (size_t i = 0; i < numbers.size(); ++i)
    if (fit.numbers[i].at(n) != numbers[i]) return {};
  return n;
}

}  // namespace tpu::hlo
