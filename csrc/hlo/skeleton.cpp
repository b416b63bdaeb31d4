// SPDX-License-Identifier: Apache-2.0
// Skeletons of programs, and the numbers that fill them.
#include "hlo/skeleton.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <unordered_map>

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

std::optional<int64_t> solve(const Fit& fit, std::span<const int64_t> numbers) {
  if (numbers.size() != fit.numbers.size()) return {};
  const int64_t n = numbers[fit.base];
  for (size_t i = 0; i < numbers.size(); ++i)
    if (fit.numbers[i].at(n) != numbers[i]) return {};
  return n;
}

}  // namespace tpu::hlo
