// SPDX-License-Identifier: Apache-2.0
// Capture of graphs, and the compiled function.
#include "runtime/capture.h"

#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include "lower/rule.h"

namespace tpu::runtime {
namespace {

thread_local Capture* active_capture = nullptr;

// Elements from the first to the last that a tensor sees.
int64_t span_of(const at::Tensor& tensor) {
  int64_t span = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) == 0) return 0;
    span += (tensor.size(d) - 1) * tensor.stride(d);
  }
  return span;
}

}  // namespace

Capture* Capture::active() { return active_capture; }

Capture::Capture(const Call& call, Chip& chip)
    : call_(call),
      recording_(chip, /*capturing=*/true),
      shadow_of_tensor_(call.tensors.size(), -1),
      outer_(active_capture) {
  std::unordered_map<const Cell*, int> users;
  for (const Cell* cell : call.cells) ++users[cell];
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const at::Tensor& tensor = *call.tensors[i];
    Cell& cell = *call.cells[i];
    if (auto found = shadow_of_.find(&cell); found != shadow_of_.end()) {
      shadow_of_tensor_[i] = found->second;
      continue;
    }
    auto shadow = std::make_unique<Shadow>();
    shadow->tensor = static_cast<int>(i);
    const size_t bytes = tensor.storage().nbytes();
    const Origin origin{Origin::kArray, static_cast<int>(i), 0, hlo::DType::kF32, 0};
    if (!cell.array) {
      shadow->storage = make_storage(chip, bytes, cell.made_as);
    } else {
      const hlo::Type type = cell.array->type();
      hlo::Value base = recording_.placeholder(type, origin);
      const int64_t span = span_of(tensor);
      shadow->span = call.views[i] && users[&cell] == 1 && span > 0 &&
                     lower::dtype_of(tensor.scalar_type()) == type.dtype && !call.views[i]->covers;
      if (shadow->span) {
        // The offset is a run-time operand: the graph is the same wherever the view lies.
        const int64_t size[] = {span}, stride[] = {1};
        shadow->view = std::make_unique<View>(resolve(size, stride, tensor.storage_offset(), {type.numel()}));
        shadow->base = base;
        const int index = static_cast<int>(i);
        auto start = [this, index](size_t, int64_t, hlo::DType dtype) {
          return recording_.placeholder({dtype, {}}, {Origin::kStart, index, Origin::kWholeOffset, dtype, 0});
        };
        hlo::Value part = read_view(base, *shadow->view, type.dtype, start);
        shadow->initial = ArrayRef(new Array(chip, part.type(), recording_, part));
      } else {
        shadow->initial = ArrayRef(new Array(chip, type, recording_, base));
      }
      const hlo::Type made = shadow->initial->type();
      shadow->storage = make_storage(chip, made.bytes(), made, shadow->initial);
    }
    shadow_of_tensor_[i] = static_cast<int>(shadows_.size());
    shadow_of_.emplace(&cell, static_cast<int>(shadows_.size()));
    shadows_.push_back(std::move(shadow));
  }
  active_capture = this;
}

Capture::~Capture() {
  std::lock_guard guard(lock());
  active_capture = outer_;
  for (Foreign& foreign : foreign_) cell_of(foreign.storage).array = foreign.original;
}

at::Tensor Capture::shadow(int index) {
  const at::Tensor& tensor = *call_.tensors[index];
  const Shadow& shadow = *shadows_[shadow_of_tensor_[index]];
  return make_tensor(shadow.storage, tensor.scalar_type(), tensor.sizes(), tensor.strides(),
                     shadow.span ? 0 : tensor.storage_offset());
}

hlo::Value Capture::foreign(const c10::Storage& storage) {
  for (const Foreign& known : foreign_)
    if (known.storage.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) return known.value;
  Cell& cell = cell_of(storage);
  TORCH_CHECK(cell.chip == &recording_.chip(), "torch.compile: a graph runs on one chip; it has tensors on ",
              recording_.chip().name(), " and ", cell.chip->name());
  if (cell.array->pending()) cell.array->recording()->force();
  const int index = static_cast<int>(call_.tensors.size() + foreign_.size());
  hlo::Value value =
      recording_.placeholder(cell.array->type(), {Origin::kArray, index, 0, hlo::DType::kF32, 0});
  foreign_.push_back({storage, cell.array, value});
  return value;
}

int Capture::host_input(const at::Tensor& tensor) const {
  for (size_t i = 0; i < call_.arguments.size(); ++i)
    if (call_.arguments[i].isTensor() && call_.arguments[i].toTensor().is_same(tensor))
      return static_cast<int>(i);
  return -1;
}

at::Tensor Capture::copy_of_host(const at::Tensor& tensor) {
  const hlo::Type type{lower::dtype_of(tensor.scalar_type()),
                       hlo::Dims(tensor.sizes().begin(), tensor.sizes().end())};
  at::Tensor dense = tensor.contiguous();
  Origin origin;
  hlo::Value value;
  if (const int input = host_input(tensor); input >= 0) {
    value = recording_.placeholder(type, {Origin::kHostTensor, input, 0, type.dtype, 0});
  } else {  // a constant of the graph
    value = recording_.operand(recording_.chip().from_host(dense.data_ptr(), type), origin);
  }
  ArrayRef array(new Array(recording_.chip(), type, recording_, value));
  return make_tensor(recording_.chip(), tensor.scalar_type(), dense.sizes(), dense.strides(),
                     std::move(array));
}

std::unique_ptr<Plan> Capture::finish(const std::vector<at::Tensor>& results, const char* name) {
  hlo::Program& program = recording_.program();
  std::vector<Array*> wanted;
  std::unordered_map<const Array*, int> output_of;
  auto slot_of = [&](const ArrayRef& array) -> Plan::Slot {
    TORCH_INTERNAL_ASSERT(array->recording() == &recording_);
    if (const int parameter = program.parameter_index(array->value()); parameter >= 0) return -1 - parameter;
    auto [found, added] = output_of.emplace(array.get(), static_cast<int>(wanted.size()));
    if (added) wanted.push_back(array.get());
    return found->second;
  };

  auto plan = std::make_unique<Plan>();
  std::vector<ArrayRef> alive;  // until compiled
  for (const auto& shadow : shadows_) {
    Cell& cell = cell_of(shadow->storage);
    if (!cell.array || cell.array == shadow->initial) continue;
    ArrayRef after = cell.array;
    if (shadow->span) {
      const int index = shadow->tensor;
      auto start = [this, index](size_t, int64_t, hlo::DType dtype) {
        return recording_.placeholder({dtype, {}}, {Origin::kStart, index, Origin::kWholeOffset, dtype, 0});
      };
      hlo::Value part =
          hlo::reshape(bit_cast(after->value(), shadow->base.dtype()), shadow->view->tensor_sizes);
      hlo::Value whole = write_view(shadow->base, shadow->base.type(), *shadow->view, part, start);
      after = ArrayRef(new Array(recording_.chip(), whole.type(), recording_, whole));
      recording_.replaced_parameter(program.parameter_index(shadow->base), after);
    } else if (shadow->initial) {
      recording_.replaced_parameter(program.parameter_index(shadow->initial->value()), after);
    }
    alive.push_back(after);
    plan->writes.push_back({shadow->tensor, slot_of(after)});
  }
  for (size_t k = 0; k < foreign_.size(); ++k) {
    plan->closure.push_back(foreign_[k].storage);
    Cell& cell = cell_of(foreign_[k].storage);
    if (cell.array == foreign_[k].original) continue;
    recording_.replaced_parameter(program.parameter_index(foreign_[k].value), cell.array);
    plan->writes.push_back({static_cast<int>(call_.tensors.size() + k), slot_of(cell.array)});
  }
  std::unordered_map<const c10::StorageImpl*, int> storages;
  for (size_t i = 0; i < shadows_.size(); ++i)
    storages.emplace(shadows_[i]->storage.unsafeGetStorageImpl(), -1 - shadows_[i]->tensor);
  for (size_t k = 0; k < foreign_.size(); ++k)
    storages.emplace(foreign_[k].storage.unsafeGetStorageImpl(),
                     -1 - static_cast<int>(call_.tensors.size() + k));
  for (const at::Tensor& result : results) {
    if (!result.defined()) {
      plan->results.push_back({Plan::kEmpty, c10::ScalarType::Float, {}, {}, 0});
      continue;
    }
    const c10::StorageImpl* impl = result.storage().unsafeGetStorageImpl();
    auto found = storages.find(impl);
    if (found == storages.end()) {
      Cell& cell = cell_of(result);
      const size_t bytes = result.storage().nbytes();
      Plan::Slot slot = Plan::kEmpty;
      if (cell.array && cell.array->recording() != &recording_) {
        foreign(result.storage());  // a constant handed back as it is
        plan->closure.push_back(result.storage());
        found =
            storages.emplace(impl, -1 - static_cast<int>(call_.tensors.size() + foreign_.size() - 1)).first;
      } else {
        if (cell.array) slot = slot_of(cell.array);
        found = storages.emplace(impl, static_cast<int>(plan->storages.size())).first;
        plan->storages.push_back({slot, bytes, array_type(cell, bytes)});
      }
    }
    const bool relative = found->second < 0 && -1 - found->second < static_cast<int>(call_.tensors.size()) &&
                          shadows_[shadow_of_tensor_[-1 - found->second]]->span;
    plan->results.push_back({found->second, result.scalar_type(), result.sizes().vec(),
                             result.strides().vec(), result.storage_offset(), relative});
  }
  fill_plan(*plan, recording_, recording_.compile(&wanted), name);
  return plan;
}

std::vector<c10::IValue> CompiledFunction::operator()(std::vector<c10::IValue> inputs) {
  check_fork();
  std::vector<Argument> kinds(inputs.size(), Argument{Argument::kTensor});
  std::shared_ptr<Entry> entry;
  std::vector<at::Tensor> made;
  {
    std::unique_lock guard(lock());
    Call call;
    gather(call, inputs, kinds, 0, /*graph=*/true, name_);
    // What else decides how ops are lowered.
    hlo::Hasher h;
    h.hash(call.key);
    h.word(static_cast<uint64_t>(at::globalContext().float32MatmulPrecision()));
    const hlo::Hash key = h.done();
    Chip& chip = call.chip ? *call.chip : runtime::chip(current_chip());
    call.chip = &chip;
    if (Capture::active())
      return graph_(std::move(inputs));  // a compiled function inside of another graph is part of it
    if (auto found = memo_.find(key); found != memo_.end()) entry = found->second;
    if (!entry) {
      entry = std::make_shared<Entry>();
      for (const Cell* cell : call.cells)
        if (cell->array && cell->array->pending()) cell->array->recording()->launch();
      Capture capture(call, chip);
      std::vector<c10::IValue> shadows = inputs;
      for (size_t i = 0; i < call.tensors.size(); ++i)
        shadows[call.argument_of[i]] = capture.shadow(static_cast<int>(i));
      guard.unlock();  // the graph is Python
      std::vector<c10::IValue> outputs = graph_(std::move(shadows));
      guard.lock();
      std::vector<at::Tensor> results;
      for (c10::IValue& output : outputs) {
        const bool tensor =
            output.isTensor() && (!output.toTensor().defined() || on_device(output.toTensor()));
        entry->is_tensor.push_back(tensor);
        entry->outputs.push_back(tensor ? c10::IValue() : output);
        if (tensor) results.push_back(output.toTensor());
      }
      entry->plan = capture.finish(results, name_.c_str());
      memo_[key] = entry;
    }
    made = entry->plan->run(call);
  }
  std::vector<c10::IValue> outputs = entry->outputs;
  size_t next = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (entry->is_tensor[i]) outputs[i] = std::move(made[next++]);
  return outputs;
}

}  // namespace tpu::runtime
