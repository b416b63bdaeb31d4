// SPDX-License-Identifier: Apache-2.0
// The memo of calls: what an op (or a compiled graph) does for arguments of given types, found by one hash.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hlo/hash.h"
#include "runtime/plan.h"

namespace tpu::runtime {

struct KeyHash {
  size_t operator()(const hlo::Hash& hash) const { return hash[0]; }
};

// What PyTorch's meta kernel says about a result or a written argument.
struct TensorSpec {
  bool defined = true;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes, strides;
};

struct MemoEntry {
  bool has_specs = false;            // false: the op has no meta kernel
  std::vector<TensorSpec> results;   // of new tensors, lists flattened
  std::vector<c10::IValue> numbers;  // results that are no tensors
  std::vector<TensorSpec> written;   // of written tensors, after a resize
  std::unique_ptr<Plan> plan;        // what strict eager runs; null until the first strict call
};

using Memo = std::unordered_map<hlo::Hash, std::shared_ptr<MemoEntry>, KeyHash>;

}  // namespace tpu::runtime
