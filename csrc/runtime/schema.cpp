// SPDX-License-Identifier: Apache-2.0
// Reading operator schemas, and finding the overloads that a row serves.
#include "runtime/schema.h"

#include <ATen/core/function_schema.h>

#include <unordered_map>

namespace tpu::runtime {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

Argument classify(const c10::Argument& argument) {
  Argument result{Argument::kAttribute, is_written(argument)};
  c10::TypePtr type = argument.type();
  if (type->kind() == c10::TypeKind::OptionalType)
    type = type->expectRef<c10::OptionalType>().getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      result.kind = Argument::kTensor;
      break;
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      result.kind = Argument::kNumber;
      break;
    case c10::TypeKind::GeneratorType:
      result.kind = Argument::kGenerator;
      break;
    case c10::TypeKind::DeviceObjType:
      result.kind = Argument::kIgnored;
      break;
    case c10::TypeKind::ListType: {
      c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
      if (element->kind() == c10::TypeKind::OptionalType)
        element = element->expectRef<c10::OptionalType>().getElementType();
      if (element->kind() == c10::TypeKind::TensorType)
        result.kind = Argument::kTensorList;
      else if (element->kind() == c10::TypeKind::NumberType || element->kind() == c10::TypeKind::FloatType)
        result.kind = Argument::kNumberList;
      break;
    }
    default:
      break;
  }
  const std::string& name = argument.name();
  if (name == "layout" || name == "pin_memory" || name == "memory_format" || name == "non_blocking")
    result.kind = Argument::kIgnored;
  if (result.kind == Argument::kNumber && argument.default_value()) {
    const c10::IValue& value = *argument.default_value();
    if (value.isDouble() || value.isInt() || value.isBool()) {
      result.has_default = true;
      result.default_number = value.isDouble() ? value.toDouble()
                              : value.isInt()  ? static_cast<double>(value.toInt())
                                               : value.toBool();
    }
  }
  return result;
}

std::vector<const c10::Argument*> inputs(const c10::FunctionSchema& schema) {
  std::vector<const c10::Argument*> result;
  for (const c10::Argument& argument : schema.arguments())
    if (!argument.is_out()) result.push_back(&argument);
  return result;
}

bool same_inputs(const c10::FunctionSchema& a, const c10::FunctionSchema& b) {
  const auto x = inputs(a), y = inputs(b);
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i]->name() != y[i]->name() || !(*x[i]->type() == *y[i]->type())) return false;
  return true;
}

// All overloads by base name, gathered once: the dispatcher has no such look-up.
const std::unordered_map<std::string, std::vector<c10::OperatorName>>& overloads() {
  static const auto* map = [] {
    auto* result = new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
      if (name.name.starts_with("aten::")) (*result)[name.name.substr(6)].push_back(name);
    return result;
  }();
  return *map;
}

// Batch norm writes its running statistics, and some of its schemas do not say so.
std::vector<int> hidden_writes(const c10::FunctionSchema& schema) {
  std::vector<int> result;
  const auto& arguments = schema.arguments();
  if (schema.name() != "aten::native_batch_norm") return result;
  for (size_t i = 0; i < arguments.size(); ++i)
    if ((arguments[i].name() == "running_mean" || arguments[i].name() == "running_var") &&
        !is_written(arguments[i]))
      result.push_back(static_cast<int>(i));
  return result;
}

std::vector<Operator*>& all_operators() {
  static auto* list = new std::vector<Operator*>;
  return *list;
}

Operator* make_operator(const c10::OperatorHandle& handle, const lower::Row& row,
                        const c10::FunctionSchema& functional) {
  const c10::FunctionSchema& schema = handle.schema();
  auto* op = new Operator{handle, &row, &functional,           schema.name().substr(6),
                          {},     {},   hidden_writes(schema), inputs(schema).size()};
  if (!schema.overload_name().empty()) op->name += "." + schema.overload_name();
  for (const c10::Argument& argument : schema.arguments()) {
    op->arguments.push_back(classify(argument));
    if (op->arguments.back().written) op->written.push_back(static_cast<int>(op->arguments.size()) - 1);
    if (op->arguments.back().kind == Argument::kGenerator)
      op->generator = static_cast<int>(op->arguments.size()) - 1;
  }
  for (const c10::Argument& returned : schema.returns()) {
    Operator::Return r;
    r.list = returned.type()->kind() == c10::TypeKind::ListType;
    r.number = !r.list && returned.type()->kind() != c10::TypeKind::TensorType;
    if (returned.alias_info() && returned.alias_info()->isWrite())
      for (int i : op->written)
        if (schema.arguments()[i].alias_info()->beforeSets() == returned.alias_info()->beforeSets())
          r.alias = i;
    op->returns.push_back(r);
  }
  all_operators().push_back(op);
  return op;
}

}  // namespace

void forget_plans() {
  for (Operator* op : all_operators()) op->memo.clear();
}

std::vector<Operator*> operators_of(const lower::Row& row) {
  std::vector<Operator*> result;
  const std::string full = row.op;
  const size_t dot = full.find('.');
  const std::string base = full.substr(0, dot),
                    overload = dot == std::string::npos ? "" : full.substr(dot + 1);
  auto& dispatcher = c10::Dispatcher::singleton();
  auto own = dispatcher.findSchema({"aten::" + base, overload});
  if (!own) return result;  // an op of another PyTorch version
  const c10::FunctionSchema& functional = own->schema();
  result.push_back(make_operator(*own, row, functional));
  std::vector<std::string> names = {base, base + "_"};
  if (base.starts_with("__")) names.push_back("__i" + base.substr(2));  // __lshift__: __ilshift__
  for (const std::string& name : names) {
    auto found = overloads().find(name);
    if (found == overloads().end()) continue;
    for (const c10::OperatorName& candidate : found->second) {
      auto handle = dispatcher.findSchema(candidate);
      if (!handle || handle->operator_name() == own->operator_name() ||
          !same_inputs(handle->schema(), functional))
        continue;
      bool writes = false;
      for (const c10::Argument& argument : handle->schema().arguments()) writes |= is_written(argument);
      if (writes) result.push_back(make_operator(*handle, row, functional));
    }
  }
  return result;
}

Operator* operator_for(const char* name, const lower::Row& row) {
  const std::string full = name;
  const size_t dot = full.find('.');
  auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
      ("aten::" + full.substr(0, dot)).c_str(), dot == std::string::npos ? "" : full.substr(dot + 1).c_str());
  return make_operator(handle, row, handle.schema());
}

}  // namespace tpu::runtime
