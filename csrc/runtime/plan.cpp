// SPDX-License-Identifier: Apache-2.0
// Making plans of recordings, and running them.
#include "runtime/plan.h"

#include <c10/util/Exception.h>

#include <set>

#include "runtime/counters.h"
#include "runtime/source.h"

namespace tpu::runtime {

const char* keep_name(const std::string& name) {
  static auto* names = new std::set<std::string>;
  return names->insert(name).first->c_str();
}

void fill_plan(Plan& plan, const Recording& recording, const Recording::Compiled& compiled, const char* op) {
  plan.executable = compiled.executable;
  plan.arguments = compiled.parameters;
  plan.outputs = compiled.outputs;
  plan.donations = compiled.donations;
  plan.padding = compiled.padding;
  plan.op = keep_name(op);
  for (size_t k = 0; k < plan.outputs.size(); ++k)
    plan.output_bytes += static_cast<int64_t>(output_bytes(plan.outputs[k], plan.padding.get(), k));
  const auto& inputs = recording.inputs();
  plan.needed.assign(inputs.size(), false);
  for (int parameter : plan.arguments) plan.needed[parameter] = true;
  plan.handed_on.assign(inputs.size(), false);
  const auto hand_on = [&](Plan::Slot slot) {
    if (slot < 0 && slot != Plan::kEmpty) plan.needed[-1 - slot] = plan.handed_on[-1 - slot] = true;
  };
  for (const Plan::Write& write : plan.writes) hand_on(write.slot);
  for (const Plan::NewStorage& storage : plan.storages) hand_on(storage.slot);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Origin origin = inputs[i].origin;
    plan.input_types.push_back(inputs[i].value.type());
    if (origin.kind == Origin::kHeld) {
      origin.index = static_cast<int>(plan.held.size());
      plan.held.push_back(inputs[i].array);
    }
    if (origin.kind == Origin::kRng) plan.draws.push_back({origin.index, origin.count, static_cast<int>(i)});
    plan.inputs.push_back(origin);
  }
  const auto& checks = recording.checks();
  const int first = static_cast<int>(plan.outputs.size() - checks.size());
  for (size_t k = 0; k < checks.size(); ++k)
    plan.checks.push_back({first + static_cast<int>(k), checks[k].what, checks[k].message, checks[k].op});
}

std::vector<at::Tensor> Plan::run(const Call& call) const {
  Chip& chip = *call.chip;
  const auto cell_at = [&](int tensor) -> Cell& {
    const auto count = static_cast<int>(call.cells.size());
    return tensor < count ? *call.cells[tensor] : cell_of(closure[tensor - count]);
  };

  // Draws first, in order, whether or not their numbers are used: the generator moves as it does in eager
  // mode.
  c10::SmallVector<ArrayRef, 8> owned(inputs.size());
  for (const Draw& draw : draws)
    owned[draw.input] =
        rng_array(chip, draw.argument < 0 ? c10::IValue() : call.arguments[draw.argument], draw.count);

  c10::SmallVector<Array*, 16> arrays(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!needed[i]) continue;
    const Origin& origin = inputs[i];
    switch (origin.kind) {
      case Origin::kArray: {
        Array* array = cell_at(origin.index).array.get();
        if (array->pending()) array->recording()->force();
        TORCH_CHECK(
            origin.index < static_cast<int>(call.tensors.size()) || array->type() == input_types[i], op,
            ": a tensor that the graph holds has changed its dtype in memory since it was compiled; call "
            "torch._dynamo.reset()");
        TORCH_CHECK(array->buffer() != nullptr, op,
                    ": an argument has no value: the program that should have made it failed earlier "
                    "(its error was raised then)");
        arrays[i] = array;
        break;
      }
      case Origin::kStart: {
        const int64_t start = origin.element == Origin::kWholeOffset
                                  ? call.tensors[origin.index]->storage_offset()
                                  : call.views[origin.index]->starts[origin.element];
        owned[i] = chip.integer(start, origin.dtype);
        arrays[i] = owned[i].get();
        break;
      }
      case Origin::kScalar: {
        const Bits bits = bits_of(call.arguments[origin.index], origin.element, origin.dtype);
        owned[i] = chip.scalar(origin.dtype, bits.low, bits.high);
        arrays[i] = owned[i].get();
        break;
      }
      case Origin::kRng:
        arrays[i] = owned[i].get();
        break;
      case Origin::kHostTensor: {
        const at::Tensor host = call.arguments[origin.index].toTensor().contiguous();
        owned[i] = chip.from_host(host.data_ptr(),
                                  {origin.dtype, hlo::Dims(host.sizes().begin(), host.sizes().end())});
        arrays[i] = owned[i].get();
        break;
      }
      case Origin::kHeld:
        arrays[i] = held[origin.index].get();
        break;
    }
  }

  // An input that is handed on must outlive the launch: holding it here keeps it from being donated.
  for (size_t i = 0; i < inputs.size(); ++i)
    if (handed_on[i] && !owned[i]) owned[i] = ArrayRef(arrays[i]);

  c10::SmallVector<ArrayRef, 8> made(outputs.size());
  if (executable) {
    Arguments given_arguments(chip, padding.get());
    for (int argument : arguments) given_arguments.add(*arrays[argument]);
    given_arguments.end();
    c10::SmallVector<int64_t, 8> kept;
    c10::SmallVector<Array*, 8> given;
    int64_t bytes = output_bytes;
    for (const auto& donation : donations) {
      Array* array = arrays[arguments[donation.argument]];
      if (array->unique()) {
        given.push_back(array);
        bytes -= static_cast<int64_t>(array->bytes());
      } else {
        kept.push_back(donation.argument);
      }
    }
    chip.reserve(bytes, op);
    c10::SmallVector<PJRT_Buffer*, 8> results(outputs.size());
    executable->execute(given_arguments.buffers(), {results.data(), results.size()}, chip.device().get(),
                        {kept.data(), kept.size()});
    ++counters().launches;
    const Location where = here();
    const uint64_t number = chip.log_launch(op, where);
    for (Array* array : given) array->donated();
    const pjrt::Api& api = runtime().client().api();
    for (size_t k = 0; k < outputs.size(); ++k)
      made[k] = ArrayRef(new Array(chip, outputs[k], pjrt::Buffer(api, results[k]), number,
                                   output_dims(outputs[k], padding.get(), k)));
    for (const CheckNote& check : checks)
      chip.add_check({made[check.output], check.what, check.message, check.op, where});
  }
  const auto slot = [&](Slot s) -> ArrayRef {
    if (s == kEmpty) return {};
    return s >= 0 ? made[s] : ArrayRef(arrays[-1 - s]);
  };
  // Read all before the first write: a result may be what a written storage had before.
  c10::SmallVector<c10::Storage, 4> fresh;
  for (const NewStorage& storage : storages)
    fresh.push_back(make_storage(chip, storage.bytes, storage.made_as, slot(storage.slot)));
  c10::SmallVector<ArrayRef, 4> after;
  for (const Write& write : writes) after.push_back(slot(write.slot));
  for (size_t k = 0; k < writes.size(); ++k) cell_at(writes[k].tensor).array = std::move(after[k]);

  std::vector<at::Tensor> tensors;
  tensors.reserve(results.size());
  for (const NewTensor& result : results) {
    if (result.storage == kEmpty) {
      tensors.emplace_back();
      continue;
    }
    if (result.storage >= 0) {
      tensors.push_back(
          make_tensor(fresh[result.storage], result.dtype, result.sizes, result.strides, result.offset));
      continue;
    }
    const int tensor = -1 - result.storage;
    const auto count = static_cast<int>(call.tensors.size());
    const int64_t offset = result.offset + (result.relative ? call.tensors[tensor]->storage_offset() : 0);
    tensors.push_back(make_tensor(tensor < count ? call.tensors[tensor]->storage() : closure[tensor - count],
                                  result.dtype, result.sizes, result.strides, offset));
  }
  return tensors;
}

}  // namespace tpu::runtime
