// SPDX-License-Identifier: Apache-2.0
// All operators that the tables give, made once.
#include "device/operators.h"

#include <unordered_map>

namespace tpu::device {
namespace {

using Map = std::unordered_map<std::string, runtime::Operator*>;

const Map& by_name() {
  static const Map* map = [] {
    auto* result = new Map;
    for (const lower::Family& family : lower::families())
      for (const lower::Row& row : *family.table)
        for (runtime::Operator* op : runtime::operators_of(row)) {
          auto [place, added] = result->emplace(op->name, op);
          // A row of its own wins over one that serves the overload as a sibling.
          if (!added && op->name == row.op) place->second = op;
        }
    return result;
  }();
  return *map;
}

}  // namespace

runtime::Operator* find_operator(const std::string& overload) {
  auto found = by_name().find(overload);
  return found == by_name().end() ? nullptr : found->second;
}

const std::vector<runtime::Operator*>& operators() {
  static const auto* list = [] {
    auto* result = new std::vector<runtime::Operator*>;
    for (const auto& [name, op] : by_name()) result->push_back(op);
    return result;
  }();
  return *list;
}

}  // namespace tpu::device
