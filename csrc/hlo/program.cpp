// SPDX-License-Identifier: Apache-2.0
// Recording of ops, reuse of equal ones, and the closing of a program into text and hash.
#include "hlo/program.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "hlo/hash.h"

namespace tpu::hlo {

namespace {

constexpr const char* kParameter = "parameter";
constexpr int32_t kDead = INT_MIN;

}  // namespace

// Which ops of a program are needed, and the names that they get.
struct Layout {
  const Program& program;
  std::vector<int32_t> ids;     // per op: position among the live ops, ~position for a parameter, or kDead
  std::vector<int> parameters;  // kept ones
  int32_t live_end = 0;

  // `keep`: flags of parameters to keep though nothing needs them; empty: keep all.
  Layout(const Program& program, std::span<const Value> outputs, const std::vector<bool>& keep)
      : program(program) {
    for (const Value& value : outputs) live_end = std::max(live_end, value.op() + 1);
    if (!program.parameters_.empty()) live_end = std::max(live_end, program.parameters_.back() + 1);
    ids.assign(live_end, kDead);
    for (const Value& value : outputs) ids[value.op()] = 0;
    for (size_t i = 0; i < program.parameters_.size(); ++i)
      if (keep.empty() || keep[i]) ids[program.parameters_[i]] = 0;
    for (int32_t i = live_end - 1; i >= 0; --i)
      if (ids[i] != kDead)
        for (const Value& operand : program.ops_[i].operands) ids[operand.op()] = 0;
    int32_t next = 0;
    size_t parameter = 0;
    for (int32_t i = 0; i < live_end; ++i) {
      bool is_parameter = parameter < program.parameters_.size() && program.parameters_[parameter] == i;
      if (ids[i] != kDead) {
        if (is_parameter) {
          ids[i] = ~static_cast<int32_t>(parameters.size());
          parameters.push_back(static_cast<int>(parameter));
        } else {
          ids[i] = next++;
        }
      }
      parameter += is_parameter;
    }
  }

  void hash_value(Hasher& hasher, const Value& value) const {
    hasher.word(static_cast<uint64_t>(static_cast<uint32_t>(ids[value.op()])) << 32 |
                static_cast<uint32_t>(value.result()));
  }

  // By position only, so what was recorded but is not needed does not matter.
  void hash(Hasher& hasher, std::span<const Value> outputs) const {
    hasher.word(parameters.size());
    for (int parameter : parameters) hasher.hash(program.local_[program.parameters_[parameter]]);
    for (int32_t i = 0; i < live_end; ++i) {
      if (ids[i] < 0) continue;
      hasher.hash(program.local_[i]);
      for (const Value& operand : program.ops_[i].operands) hash_value(hasher, operand);
    }
    hasher.word(outputs.size());
    for (const Value& value : outputs) hash_value(hasher, value);
  }

  // Nested names may not hide outer ones, so all regions count on from `base`.
  struct Names {
    int32_t base;
    int32_t arguments;
  };

  void append_name(std::string& text, const Value& value, Names names) const {
    int32_t id = ids[value.op()];
    text += id < 0 ? "%arg" : "%";
    append_int(text, id < 0 ? names.arguments + ~id : names.base + id);
    if (program.ops_[value.op()].results.size() > 1) {
      text += '#';
      append_int(text, value.result());
    }
  }

  void append_list(std::string& text, std::span<const Value> values, Names names) const {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) text += ", ";
      append_name(text, values[i], names);
    }
  }

  static void append_types(std::string& text, std::span<const Value> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) text += ", ";
      values[i].type().append_to(text);
    }
  }

  // `next` is the first number that is free for nested regions.
  void append_ops(std::string& text, Names names, Names& next, int indent) const {
    for (int32_t i = 0; i < live_end; ++i) {
      if (ids[i] < 0) continue;
      const Op& op = program.ops_[i];
      text.append(indent, ' ');
      if (!op.results.empty()) {
        text += '%';
        append_int(text, names.base + ids[i]);
        if (op.results.size() > 1) {
          text += ':';
          append_int(text, static_cast<int64_t>(op.results.size()));
        }
        text += " = ";
      }
      text += '"';
      text += op.name;
      text += "\"(";
      append_list(text, op.operands, names);
      text += ')';
      if (!op.attributes.empty()) {
        text += " <{";
        text += op.attributes;
        text += "}>";
      }
      for (size_t r = 0; r < op.regions.size(); ++r) {
        text += r ? ", {\n" : " ({\n";
        append_region(text, *op.regions[r], next, indent + 2);
        text.append(indent, ' ');
        text += '}';
      }
      if (!op.regions.empty()) text += ')';
      text += " : (";
      append_types(text, op.operands);
      text += ") -> ";
      if (op.results.size() != 1) text += '(';
      for (size_t r = 0; r < op.results.size(); ++r) {
        if (r) text += ", ";
        op.results[r].append_to(text);
      }
      if (op.results.size() != 1) text += ')';
      text += '\n';
    }
  }

  int32_t live_ops() const {
    return static_cast<int32_t>(std::ranges::count_if(ids, [](int32_t id) { return id >= 0; }));
  }

  static void append_region(std::string& text, const Program& region, Names& next, int indent) {
    Layout layout(region, region.returned(), {});
    Names names = next;
    next.base += layout.live_ops();
    next.arguments += static_cast<int32_t>(layout.parameters.size());
    text.append(indent - 2, ' ');
    text += "^bb0(";
    for (size_t i = 0; i < region.parameters_.size(); ++i) {
      text += i ? ", %arg" : "%arg";
      append_int(text, names.arguments + static_cast<int64_t>(i));
      text += ": ";
      region.ops_[region.parameters_[i]].results[0].append_to(text);
    }
    text += "):\n";
    layout.append_ops(text, names, next, indent);
    text.append(indent, ' ');
    text += "\"stablehlo.return\"(";
    layout.append_list(text, region.returned(), names);
    text += ") : (";
    append_types(text, region.returned());
    text += ") -> ()\n";
  }

  std::string text(std::span<const Value> outputs, const std::vector<int>& aliases) const {
    std::string text;
    text.reserve(128 + 128 * ids.size());
    text += "module @m {\n  func.func public @main(";
    for (size_t i = 0; i < parameters.size(); ++i) {
      text += i ? ", %arg" : "%arg";
      append_int(text, static_cast<int64_t>(i));
      text += ": ";
      program.ops_[program.parameters_[parameters[i]]].results[0].append_to(text);
      if (int output = aliases[parameters[i]]; output >= 0) {
        text += " {tf.aliasing_output = ";
        append_int(text, output);
        text += " : i32}";
      }
    }
    text += ") -> (";
    append_types(text, outputs);
    text += ") {\n";
    Names next = {live_ops(), static_cast<int32_t>(parameters.size())};
    append_ops(text, {0, 0}, next, 4);
    text += "    return";
    if (!outputs.empty()) {
      text += ' ';
      append_list(text, outputs, {0, 0});
      text += " : ";
      append_types(text, outputs);
    }
    text += "\n  }\n}\n";
    return text;
  }
};

Value Program::parameter(Type type) {
  int32_t index = op_count();
  Hasher hasher;
  hasher.type(type);
  Op& op = ops_.emplace_back();
  op.name = kParameter;
  op.results.push_back(std::move(type));
  local_.push_back(hasher.done());
  keys_.push_back({});
  parameters_.push_back(index);
  return {this, index, 0};
}

int Program::parameter_index(Value value) const {
  auto found = std::ranges::lower_bound(parameters_, value.op());
  if (&value.program() != this || found == parameters_.end() || *found != value.op()) return -1;
  return static_cast<int>(found - parameters_.begin());
}

Value Program::add(Op op) {
  Hasher hasher;
  hasher.bytes(op.name);
  hasher.bytes(op.attributes);
  for (const Type& type : op.results) hasher.type(type);
  bool side_effect = op.attributes.find("has_side_effect = true") != std::string::npos;
  for (const auto& region : op.regions) {
    hasher.hash(region->region_hash());
    side_effect |= region->has_side_effect();
  }
  Hash local = hasher.done();
  for (const Value& operand : op.operands) {
    // The usual cause is a body that uses a value from outside instead of its own arguments.
    if (!operand || &operand.program() != this)
      type_error(op.name, "operands of the program (or region) that it is recorded in", op.operands);
    hasher.word(static_cast<uint64_t>(operand.op()) << 32 | static_cast<uint32_t>(operand.result()));
  }
  Hash key = hasher.done();
  int32_t index = op_count();
  if (side_effect) {
    side_effect_ = true;
  } else {
    if (slots_.size() < 2 * (keys_.size() + 1)) {
      slots_.assign(std::max<size_t>(32, 4 * slots_.size()), 0);
      for (int32_t i = 0; i < index; ++i) {
        if (keys_[i] == Hash{}) continue;
        size_t slot = keys_[i][0] & (slots_.size() - 1);
        while (slots_[slot]) slot = (slot + 1) & (slots_.size() - 1);
        slots_[slot] = i + 1;
      }
    }
    size_t slot = key[0] & (slots_.size() - 1);
    for (; slots_[slot]; slot = (slot + 1) & (slots_.size() - 1))
      if (keys_[slots_[slot] - 1] == key) return {this, slots_[slot] - 1, 0};
    slots_[slot] = index + 1;
  }
  ops_.push_back(std::move(op));
  local_.push_back(local);
  keys_.push_back(side_effect ? Hash{} : key);
  return {this, index, 0};
}

void Program::set_return(std::vector<Value> values) {
  for (const Value& value : values)
    if (!value || &value.program() != this)
      type_error("return", "values of the region, not from outside", values);
  returned_ = std::move(values);
  Hasher hasher;
  Layout(*this, returned_, {}).hash(hasher, returned_);
  region_hash_ = hasher.done();
}

Program::Extent Program::extent(std::span<const Value> outputs) const {
  const Layout layout(*this, outputs, std::vector<bool>(std::max<size_t>(parameters_.size(), 1)));
  Extent extent;
  for (int32_t i = 0; i < layout.live_end; ++i) {
    if (layout.ids[i] < 0) continue;
    ++extent.ops;
    for (const Type& type : ops_[i].results) extent.elements += type.numel();
  }
  return extent;
}

Closed Program::close(std::span<const Value> outputs, std::span<const Donation> donations, bool text,
                      bool all_parameters) const {
  for (const Value& value : outputs)
    if (!value || &value.program() != this) type_error("close", "outputs of the program", outputs);
  std::vector<bool> keep(std::max<size_t>(parameters_.size(), 1), all_parameters);
  std::vector<int> aliases(parameters_.size(), -1);
  std::vector<bool> taken(outputs.size());
  for (const Donation& donation : donations) {
    if (donation.parameter < 0 || donation.parameter >= parameter_count() || donation.output < 0 ||
        donation.output >= static_cast<int>(outputs.size()) || aliases[donation.parameter] >= 0 ||
        taken[donation.output] ||
        ops_[parameters_[donation.parameter]].results[0] != outputs[donation.output].type())
      type_error("close", "each donation to join one parameter and one output of its type", outputs);
    keep[donation.parameter] = true;
    aliases[donation.parameter] = donation.output;
    taken[donation.output] = true;
  }
  Layout layout(*this, outputs, keep);
  Closed closed;
  Hasher hasher;
  layout.hash(hasher, outputs);
  for (int parameter : layout.parameters) hasher.word(static_cast<uint64_t>(aliases[parameter] + 1));
  closed.hash = hasher.done();
  for (const Value& value : outputs) closed.outputs.push_back(value.type());
  if (text) closed.text = layout.text(outputs, aliases);
  closed.parameters = std::move(layout.parameters);
  return closed;
}

void type_error(const char* op, const std::string& expected, std::span<const Value> got) {
  std::string text = "hlo::";
  const char* dot = std::strchr(op, '.');
  text += dot ? dot + 1 : op;
  text += ": expected " + expected + ", got ";
  if (got.empty()) text += "no operands";
  for (size_t i = 0; i < got.size(); ++i) {
    if (i) text += i + 1 == got.size() ? " and " : ", ";
    if (got[i])
      got[i].type().append_to(text);
    else
      text += "no value";
  }
  text += ". This is a defect of torch_tpu; please report it with this text.";
  throw TypeError(text);
}

}  // namespace tpu::hlo
