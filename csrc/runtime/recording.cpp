// SPDX-License-Identifier: Apache-2.0
// Recordings: parameters, pending arrays, and the launch.
#include "runtime/recording.h"

#include <c10/util/Exception.h>

#include "runtime/buckets.h"
#include "runtime/counters.h"

namespace tpu::runtime {

Recording::~Recording() { clear(); }

void Recording::clear() {
  for (Array* array : pending_)
    if (array) array->fail();
  pending_.clear();
  live_ = 0;
  checks_.clear();
  roots_.clear();
  input_of_.clear();
  first_op_ = nullptr;
  ops_ = 0;
  program_ = std::make_unique<hlo::Program>();
  // Last: dropping inputs may run destructors that look at this recording.
  auto inputs = std::move(inputs_);
  inputs_.clear();
}

hlo::Value Recording::parameter(const hlo::Type& type, Input input) {
  hlo::Value value = program_->parameter(type);
  input.value = value;
  inputs_.push_back(std::move(input));
  return value;
}

hlo::Value Recording::value_of(const ArrayRef& array, Origin origin) {
  if (array->recording() == this) return array->value();
  if (array->pending()) array->recording()->force();
  TORCH_CHECK(array->buffer() != nullptr,
              "this tensor has no value: the program that should have made it failed earlier (its error was "
              "raised then)");
  if (auto found = input_of_.find(array.get()); found != input_of_.end()) return inputs_[found->second].value;
  input_of_.emplace(array.get(), program_->parameter_count());
  return parameter(array->type(), {array, origin, {}});
}

hlo::Value Recording::operand(ArrayRef array, Origin origin) {
  const hlo::Type type = array->type();
  return parameter(type, {std::move(array), origin, {}});
}

hlo::Value Recording::placeholder(const hlo::Type& type, Origin origin) {
  return parameter(type, {{}, origin, {}});
}

ArrayRef Recording::wrap(hlo::Value value) {
  // Only arrays of storages are passed on: several parameters may hold the same number, and a plan must tell
  // them apart.
  if (int index = program_->parameter_index(value);
      index >= 0 && inputs_[index].array && inputs_[index].origin.kind == Origin::kArray)
    return inputs_[index].array;
  return ArrayRef(new Array(chip_, value.type(), *this, value));
}

void Recording::replaced(const ArrayRef& before, const ArrayRef& after) {
  if (!before || before == after || !after->pending()) return;
  int root = -1;
  if (auto found = roots_.find(before.get()); found != roots_.end())
    root = found->second;
  else if (auto input = input_of_.find(before.get()); input != input_of_.end())
    root = input->second;
  if (root >= 0) roots_[after.get()] = root;
}

void Recording::require(hlo::Value ok, const char* what, std::string message, std::string op,
                        Location where) {
  checks_.push_back({ok, what, std::move(message), std::move(op), where});
}

size_t Recording::enlist(Array& array) {
  pending_.push_back(&array);
  ++live_;
  return pending_.size() - 1;
}

void Recording::forget(Array& array) {
  pending_[array.pending_slot_] = nullptr;
  roots_.erase(&array);
  --live_;
}

Recording::Compiled Recording::compile(const std::vector<Array*>* wanted) {
  Compiled result;
  std::vector<hlo::Value> outputs;
  std::vector<hlo::Program::Donation> donations;
  std::vector<bool> taken(inputs_.size(), false);
  for (Array* array : wanted ? *wanted : pending_) {
    if (!array) continue;
    if (auto root = roots_.find(array); root != roots_.end() && !taken[root->second]) {
      if (inputs_[root->second].value.type() == array->type()) {
        taken[root->second] = true;
        donations.push_back({root->second, static_cast<int>(outputs.size())});
      }
    }
    outputs.push_back(array->value());
    result.arrays.push_back(array);
  }
  for (const PendingCheck& check : checks_) outputs.push_back(check.ok);
  if (outputs.empty()) return result;
  hlo::Closed closed = program_->close(outputs, donations, false);
  result.outputs = std::move(closed.outputs);
  CompileNote note{first_op_ ? first_op_ : "a graph", first_where_, ops_, ""};
  if (!program_cache().has(closed.hash)) {
    if (auto shared = buckets().choose(*program_, outputs, donations, closed, !capturing_, note)) {
      result.executable = std::move(shared->executable);
      for (int place : shared->parameters) result.parameters.push_back(closed.parameters[place]);
      result.padding = std::move(shared->padding);
      for (const auto& donation : shared->donations)
        result.donations.push_back({donation.parameter, donation.output});
      return result;
    }
  }
  const auto text = [&] {
    std::string text = program_->close(outputs, donations).text;
    return ops_ == 1 && first_op_ ? "// " + std::string(first_op_) + "\n" + text : text;
  };
  result.executable = program_cache().get(closed.hash, note, [&] { return program_->extent(outputs); }, text);
  result.parameters = std::move(closed.parameters);
  for (size_t k = 0; k < result.parameters.size(); ++k)
    for (const auto& donation : donations)
      if (donation.parameter == result.parameters[k])
        result.donations.push_back({static_cast<int>(k), donation.output});
  return result;
}

void Recording::force() {
  TORCH_CHECK(
      !capturing_,
      "torch.compile: the value of a tensor is needed while the graph is being compiled, and it exists only "
      "when the compiled function runs. .item(), .tolist(), .cpu(), print and branches on a tensor's value "
      "can't be part "
      "of a compiled graph: take them out of it, or use torch.where or torch.cond.");
  launch();
}

void Recording::launch(const char* op) {
  std::lock_guard guard(lock());
  if (empty()) return clear();
  Compiled compiled;
  const uint64_t before = counters().compilations;
  try {
    compiled = compile();
  } catch (...) {
    clear();
    throw;
  }
  chip_.repeats().launched(counters().compilations != before);
  execute(compiled, op);
}

void Recording::execute(const Compiled& compiled, const char* op, int held) {
  struct Clear {
    Recording* recording;
    ~Clear() { recording->clear(); }
  } clear{this};
  if (!compiled.executable) return;
  const std::string name = op ? op : ops_ == 1 && first_op_ ? first_op_ : "a program of several ops";
  std::vector<PJRT_Buffer*> results(compiled.outputs.size());
  Arguments arguments(chip_, compiled.padding.get());
  for (int parameter : compiled.parameters) arguments.add(*inputs_[parameter].array);
  arguments.end();

  int64_t bytes = 0;
  for (size_t k = 0; k < compiled.outputs.size(); ++k)
    bytes += static_cast<int64_t>(output_bytes(compiled.outputs[k], compiled.padding.get(), k));
  std::vector<int64_t> kept;
  std::vector<Array*> given;
  for (const auto& donation : compiled.donations) {
    const ArrayRef& array = inputs_[compiled.parameters[donation.argument]].array;
    if (array->references() != 1 + held) {
      kept.push_back(donation.argument);
      continue;
    }
    given.push_back(array.get());
    bytes -= static_cast<int64_t>(array->bytes());
  }
  chip_.reserve(bytes, name.c_str());
  compiled.executable->execute(arguments.buffers(), results, chip_.device().get(), kept);
  ++counters().launches;
  const uint64_t number = chip_.log_launch(first_op_ ? first_op_ : "transfer", first_where_);
  for (Array* array : given) array->donated();
  const pjrt::Api& api = runtime().client().api();
  for (size_t k = 0; k < compiled.arrays.size(); ++k)
    compiled.arrays[k]->settle({api, results[k]}, number,
                               output_dims(compiled.outputs[k], compiled.padding.get(), k));
  pending_.clear();
  live_ = 0;
  for (size_t k = 0; k < checks_.size(); ++k) {
    const size_t output = compiled.arrays.size() + k;
    ArrayRef ok(new Array(chip_, compiled.outputs[output], pjrt::Buffer(api, results[output])));
    PendingCheck& check = checks_[k];
    chip_.add_check({std::move(ok), check.what, check.message, check.op, check.where});
  }
}

}  // namespace tpu::runtime
