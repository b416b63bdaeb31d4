// SPDX-License-Identifier: Apache-2.0
// Capture: a graph of torch.compile runs once through the same dispatcher, on shadows of its inputs, and the
// whole recording becomes one plan. A compiled function is thus one large op: its calls are keyed, remembered
// and run like those of any op.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/memo.h"
#include "runtime/recording.h"
#include "runtime/schema.h"

namespace tpu::runtime {

class Capture {
 public:
  // The capture that runs on this thread, or null.
  static Capture* active();

  Capture(const Call& call, Chip& chip);
  ~Capture();  // storages that are no inputs get their arrays back

  Recording& recording() { return recording_; }
  // A storage that the graph uses though it is no input: it becomes one.
  hlo::Value foreign(const c10::Storage& storage);
  // The input that a 0-d CPU tensor is, or -1.
  int host_input(const at::Tensor& tensor) const;

  // A CPU tensor on the chip: an input of the graph is read at each call, any other one is a constant.
  at::Tensor copy_of_host(const at::Tensor& tensor);

  // The tensor that stands for tensor `index` of the call: same sizes and strides, over a storage of the
  // capture.
  at::Tensor shadow(int index);
  // Compiles what the graph recorded. `results`: its new tensors.
  std::unique_ptr<Plan> finish(const std::vector<at::Tensor>& results, const char* name);

 private:
  struct Shadow {  // of a storage
    c10::Storage storage;
    ArrayRef initial;
    int tensor;                  // first tensor of the call on it
    bool span = false;           // holds just the part of the storage that the tensor spans
    std::unique_ptr<View> view;  // of the span
    hlo::Value base;             // value of the whole storage, for spans
  };
  struct Foreign {
    c10::Storage storage;
    ArrayRef original;
    hlo::Value value;
  };

  const Call& call_;
  Recording recording_;
  std::unordered_map<const Cell*, int> shadow_of_;
  std::vector<std::unique_ptr<Shadow>> shadows_;
  std::vector<int> shadow_of_tensor_;
  std::vector<Foreign> foreign_;
  Capture* outer_;
};

// A graph as a callable. Inputs are tensors and plain values; outputs too.
class CompiledFunction {
 public:
  using Graph = std::function<std::vector<c10::IValue>(std::vector<c10::IValue>)>;
  CompiledFunction(Graph graph, std::string name) : graph_(std::move(graph)), name_(std::move(name)) {}

  // The first call for inputs of given types runs the graph; later ones do not.
  std::vector<c10::IValue> operator()(std::vector<c10::IValue> inputs);

 private:
  struct Entry {
    std::unique_ptr<Plan> plan;
    std::vector<c10::IValue> outputs;  // None where a tensor of the plan goes
    std::vector<bool> is_tensor;
  };
  Graph graph_;
  std::string name_;
  std::unordered_map<hlo::Hash, std::shared_ptr<Entry>, KeyHash> memo_;
};

}  // namespace tpu::runtime
