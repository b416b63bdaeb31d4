// SPDX-License-Identifier: Apache-2.0
// Options as PJRT named values.
#pragma once

#include <vector>

#include "pjrt/api.h"

namespace tpu::pjrt {

// Refers to the names and strings of `values`, which must outlive the result.
inline std::vector<PJRT_NamedValue> named_values(const Values& values) {
  std::vector<PJRT_NamedValue> result;
  for (const auto& [name, value] : values) {
    auto named = PJRT_ARGS(PJRT_NamedValue, .name = name.data(), .name_size = name.size());
    named.value_size = 1;
    if (auto text = std::get_if<std::string>(&value)) {
      named.type = PJRT_NamedValue_kString;
      named.string_value = text->data();
      named.value_size = text->size();
    } else if (auto flag = std::get_if<bool>(&value)) {
      named.type = PJRT_NamedValue_kBool;
      named.bool_value = *flag;
    } else if (auto integer = std::get_if<int64_t>(&value)) {
      named.type = PJRT_NamedValue_kInt64;
      named.int64_value = *integer;
    } else {
      named.type = PJRT_NamedValue_kFloat;
      named.float_value = std::get<float>(value);
    }
    result.push_back(named);
  }
  return result;
}

}  // namespace tpu::pjrt
