// SPDX-License-Identifier: Apache-2.0
// The boxed kernel behind all rows of all tables.
#include "runtime/dispatch.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>

#include "lower/cast.h"
#include "runtime/capture.h"
#include "runtime/config.h"
#include "runtime/counters.h"
#include "runtime/meta.h"
#include "runtime/source.h"

namespace tpu::runtime {
namespace {

// Fused recordings are cut when they reach this many ops: compile time grows faster than run time shrinks.
constexpr int32_t kMostOps = 512;
// ... or when so many results are pending: equal ops are recorded once, but each has its result.
constexpr size_t kMostResults = 1024;
// Calls (of other argument types) that are remembered per op.
constexpr size_t kMostRemembered = 4096;

// What besides the arguments decides how an op is lowered.
void add_globals(Call& call) {
  hlo::Hasher h;
  h.hash(call.key);
  h.word(static_cast<uint64_t>(at::globalContext().float32MatmulPrecision()) << 8 |
         static_cast<uint64_t>(c10::typeMetaToScalarType(c10::get_default_dtype())));
  call.key = h.done();
}

void gather_call(Call& call, Operator& op, at::ArrayRef<c10::IValue> arguments) {
  call = Call();
  gather(call, arguments, op.arguments, op.depends_on, /*graph=*/false, op.name);
  add_globals(call);
  if (call.chip) return;
  // A factory without tensor arguments runs on the device it names, or on the current one.
  for (const c10::IValue& argument : arguments)
    if (argument.isDevice() && argument.toDevice().has_index())
      call.chip = &chip(argument.toDevice().index());
  if (!call.chip) call.chip = &chip(current_chip());
}

// The elements in the order in which a new tensor with these strides keeps them.
hlo::Value in_memory_order(hlo::Value x, const hlo::Type& memory, c10::IntArrayRef strides) {
  std::vector<int> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  if (memory.rank() != x.rank()) return {};
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  return hlo::transpose(x, order);
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::max<int64_t>(sizes[i], 1)) strides[i] = stride;
  return strides;
}

class Invocation {
 public:
  Invocation(Operator& op, torch::jit::Stack* stack)
      : op_(op),
        stack_(stack),
        count_(op.arguments.size()),
        arguments_(stack->data() + stack->size() - count_, count_) {}

  void run() {
    check_fork();
    std::unique_lock guard(lock());
    gather_call(call_, op_, arguments_);
    Capture* capture = Capture::active();
    Mode now = mode();
    if (now == Mode::kFused && !capture && call_.chip->repeats().tired()) now = Mode::kStrict;
    if (!capture && now == Mode::kFused) settle_halves_seen_as_bits();
    const bool remembers = !capture && now != Mode::kFused;
    std::shared_ptr<MemoEntry>* found = find();
    if (remembers && found && (*found)->plan) {
      ++counters().memory_hits;
      const std::shared_ptr<MemoEntry> entry = *found;
      finish(entry->plan->run(call_), *entry);
      if (now == Mode::kDebug) wait(guard);
      return;
    }
    std::shared_ptr<MemoEntry> entry = found ? *found : nullptr;
    if (!entry) {
      entry = std::make_shared<MemoEntry>();
      guard.unlock();
      ask_meta(op_, arguments_, *entry);
      guard.lock();
      remember(entry);
    }
    if (resize_written(*entry)) gather_call(call_, op_, arguments_);  // other sizes, another key
    record(entry, capture, remembers);
    if (now == Mode::kDebug && !capture) wait(guard);
  }

 private:
  // XLA:CPU computes halves in float32 inside of a fusion, which loses bits that are denormal there. Bits
  // that are seen through view(dtype) are taken from memory instead.
  void settle_halves_seen_as_bits() {
    for (size_t i = 0; i < call_.tensors.size(); ++i) {
      const ArrayRef& array = call_.cells[i]->array;
      if (!array || !array->pending()) continue;
      const hlo::DType made = array->type().dtype, seen = lower::dtype_of(call_.tensors[i]->scalar_type());
      const auto half = [](hlo::DType t) { return t == hlo::DType::kF16 || t == hlo::DType::kBF16; };
      if (made != seen && (half(made) || half(seen))) array->recording()->force();
    }
  }

  std::shared_ptr<MemoEntry>* find() {
    auto it = op_.memo.find(call_.key);
    return it == op_.memo.end() ? nullptr : &it->second;
  }

  // Shapes that never come again must not pile up. What is dropped comes back from the program cache.
  std::shared_ptr<MemoEntry>& remember(std::shared_ptr<MemoEntry> entry) {
    if (op_.memo.size() >= kMostRemembered) op_.memo.clear();
    return op_.memo[call_.key] = std::move(entry);
  }

  // out= arguments take the size that the meta kernel gave its shadow of them.
  bool resize_written(const MemoEntry& entry) {
    if (!entry.has_specs) return false;
    bool resized = false;
    size_t k = 0;
    for (int i : op_.written) {
      for_each_tensor(arguments_[i], [&](const at::Tensor& tensor) {
        const TensorSpec& spec = entry.written[k++];
        if (!tensor.defined() || tensor.sizes() == c10::IntArrayRef(spec.sizes)) return;
        int64_t span = tensor.storage_offset() + 1;
        for (size_t d = 0; d < spec.sizes.size(); ++d) span += (spec.sizes[d] - 1) * spec.strides[d];
        if (std::find(spec.sizes.begin(), spec.sizes.end(), 0) != spec.sizes.end()) span = 0;
        const auto bytes = static_cast<size_t>(span) * tensor.dtype().itemsize();
        Cell& cell = cell_of(tensor);
        if (tensor.storage().nbytes() < bytes) {
          if (!cell.array) cell.made_as = memory_type(tensor.scalar_type(), spec.sizes, spec.strides);
          resize_storage(tensor.storage(), bytes);
        }
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
        resized = true;
      });
    }
    return resized;
  }

  template <class F>
  static void for_each_tensor(const c10::IValue& value, const F& f) {
    if (value.isTensor())
      f(value.toTensor());
    else if (value.isList())
      for (const c10::IValue& element : value.toListRef())
        if (element.isTensor()) f(element.toTensor());
  }

  void record(const std::shared_ptr<MemoEntry>& entry, Capture* capture, bool remembers) {
    std::unique_ptr<Recording> own;
    if (remembers) own = std::make_unique<Recording>(*call_.chip);
    Recording& recording = capture ? capture->recording() : remembers ? *own : call_.chip->recording();
    TORCH_CHECK(&recording.chip() == call_.chip, op_.name, ": a compiled graph runs on one chip, ",
                recording.chip().name(), "; this op's tensors are on ", call_.chip->name());
    const Location where = here();
    const size_t checks = recording.check_count();
    std::vector<std::pair<Cell*, ArrayRef>> before;  // to undo
    std::vector<at::Tensor> fresh;
    std::vector<int> written;
    const uint64_t depended = op_.depends_on;
    try {
      CallSource source(op_, call_, recording, where);
      lower::Args args(*op_.functional, arguments_.slice(0, op_.functional_count), source);
      lower::Results results = (op_.row->rule)(args);
      recording.note(op_.row->op, where);
      size_t next = bind_new(results, *entry, recording, fresh);
      written = bind_written(results, next, source, before);
      if (remembers) {
        const Recording::Compiled compiled = recording.compile();
        auto plan = make_plan(recording, compiled, fresh, written);
        recording.execute(compiled, op_.name.c_str(), /*held=*/1);
        // A rule that turned out to depend on a number changes the key of its op: the next call is
        // remembered.
        if (depended == op_.depends_on) entry_for_plan(entry)->plan = std::move(plan);
      }
    } catch (...) {
      for (auto& [cell, array] : before) cell->array = array;  // nothing is lost by an op that failed
      if (!remembers) recording.drop_checks(checks);
      throw;
    }
    if (!capture && !remembers) {
      const bool cut = call_.chip->repeats().next(reinterpret_cast<uintptr_t>(&op_), recording.ops());
      if (cut || recording.size() >= kMostOps || recording.pending() >= kMostResults) recording.launch();
    }
    finish(std::move(fresh), *entry);
  }

  MemoEntry* entry_for_plan(const std::shared_ptr<MemoEntry>& entry) {
    std::shared_ptr<MemoEntry>& kept = op_.memo[call_.key];  // after a resize the key is another one
    if (!kept)
      kept = std::make_shared<MemoEntry>(
          MemoEntry{entry->has_specs, entry->results, entry->numbers, entry->written, nullptr});
    return kept.get();
  }

  // Binds results to new tensors; returns how many were used.
  size_t bind_new(lower::Results& results, const MemoEntry& entry, Recording& recording,
                  std::vector<at::Tensor>& fresh) {
    size_t count = 0;
    for (const Operator::Return& r : op_.returns)
      if (r.alias < 0) count = r.list ? results.size() : count + 1;
    TORCH_INTERNAL_ASSERT(count <= results.size(), op_.name, ": the rule gave ", results.size(),
                          " results, the schema has ", count);
    TORCH_INTERNAL_ASSERT(!entry.has_specs || entry.results.size() == count, op_.name,
                          ": PyTorch's meta kernel gives ", entry.results.size(), " results, the rule ",
                          count);
    for (size_t k = 0; k < count; ++k) {
      if (!results[k]) {
        fresh.emplace_back();
        continue;
      }
      TensorSpec spec;
      if (entry.has_specs && entry.results[k].defined) {
        spec = entry.results[k];
        check_dims(results[k], spec.sizes);
      } else {
        spec = {true, lower::scalar_type_of(results[k].dtype()), results[k].dims(),
                contiguous_strides(results[k].dims())};
      }
      hlo::Value value = lower::cast(results[k], lower::dtype_of(spec.dtype));
      hlo::Type memory = memory_type(spec.dtype, spec.sizes, spec.strides);
      hlo::Value ordered = in_memory_order(value, memory, spec.strides);
      if (!ordered) {  // strides with gaps or overlaps: a new tensor is dense instead
        spec.strides = contiguous_strides(spec.sizes);
        ordered = value;
      }
      fresh.push_back(
          make_tensor(*call_.chip, spec.dtype, spec.sizes, spec.strides, recording.wrap(ordered)));
    }
    return count;
  }

  // Stores the remaining results in the written arguments; returns the tensors of the call that were written.
  std::vector<int> bind_written(lower::Results& results, size_t next, CallSource& source,
                                std::vector<std::pair<Cell*, ArrayRef>>& before) {
    std::vector<int> written;
    // What the op returns comes first, as in the functional form; then what it writes besides.
    std::vector<int> targets;
    for (const Operator::Return& r : op_.returns)
      if (r.alias >= 0) targets.push_back(r.alias);
    for (int i : op_.written)
      if (std::find(targets.begin(), targets.end(), i) == targets.end()) targets.push_back(i);
    targets.insert(targets.end(), op_.hidden.begin(), op_.hidden.end());
    for (int i : targets) {
      for_each_tensor(arguments_[i], [&](const at::Tensor& tensor) {
        if (!tensor.defined()) return;
        if (next == results.size() && std::find(op_.hidden.begin(), op_.hidden.end(), i) != op_.hidden.end())
          return;  // running statistics that this call leaves as they are
        TORCH_INTERNAL_ASSERT(next < results.size(), op_.name, ": the rule gave ", results.size(),
                              " results, too few");
        hlo::Value value = results[next++];
        if (!value) return;
        const int index = call_.index_of(tensor);
        value = lower::cast(value, lower::dtype_of(tensor.scalar_type()));
        value = hlo::broadcast_to(value, hlo::Dims(tensor.sizes().begin(), tensor.sizes().end()));
        before.emplace_back(call_.cells[index], call_.cells[index]->array);
        if (source.write(index, value)) written.push_back(index);
      });
    }
    return written;
  }

  void check_dims(hlo::Value value, const std::vector<int64_t>& sizes) const {
    TORCH_CHECK(value.dims() == sizes, op_.name, ": the rule gives ", value.type().str(),
                ", PyTorch's meta kernel sizes ", c10::IntArrayRef(sizes),
                ". This is a defect of torch_tpu; please report it with this text.");
  }

  std::unique_ptr<Plan> make_plan(const Recording& recording, const Recording::Compiled& compiled,
                                  const std::vector<at::Tensor>& fresh,
                                  const std::vector<int>& written) const {
    auto plan = std::make_unique<Plan>();
    const auto slot_of = [&](const ArrayRef& array) -> Plan::Slot {
      for (size_t k = 0; k < compiled.arrays.size(); ++k)
        if (compiled.arrays[k] == array.get()) return static_cast<int>(k);
      for (size_t k = 0; k < recording.inputs().size(); ++k)
        if (recording.inputs()[k].array == array) return -1 - static_cast<int>(k);
      TORCH_INTERNAL_ASSERT(false, op_.name, ": a result that the program does not make");
    };
    for (int index : written) plan->writes.push_back({index, slot_of(call_.cells[index]->array)});
    for (const at::Tensor& tensor : fresh) {
      if (!tensor.defined()) {
        plan->results.push_back({Plan::kEmpty, c10::ScalarType::Float, {}, {}, 0});
        continue;
      }
      const Cell& cell = cell_of(tensor);
      plan->results.push_back({static_cast<int>(plan->storages.size()), tensor.scalar_type(),
                               tensor.sizes().vec(), tensor.strides().vec(), 0});
      plan->storages.push_back({slot_of(cell.array), tensor.storage().nbytes(), cell.made_as});
    }
    fill_plan(*plan, recording, compiled, op_.name.c_str());
    return plan;
  }

  void wait(std::unique_lock<std::recursive_mutex>& guard) {
    guard.unlock();
    call_.chip->synchronize();
  }

  // Replaces the arguments on the stack by the results.
  void finish(std::vector<at::Tensor> fresh, const MemoEntry& entry) {
    c10::SmallVector<c10::IValue, 4> returned;
    size_t next = 0, number = 0;
    for (const Operator::Return& r : op_.returns) {
      if (r.number) {
        returned.push_back(entry.numbers[number++]);
        ++next;
      } else if (r.alias >= 0) {
        returned.push_back(arguments_[r.alias]);
      } else if (r.list) {
        returned.emplace_back(c10::List<at::Tensor>(std::vector<at::Tensor>(fresh.begin(), fresh.end())));
      } else {
        returned.emplace_back(std::move(fresh[next++]));
      }
    }
    torch::jit::drop(*stack_, count_);
    for (c10::IValue& value : returned) stack_->push_back(std::move(value));
  }

  Operator& op_;
  torch::jit::Stack* stack_;
  size_t count_;
  at::ArrayRef<c10::IValue> arguments_;
  Call call_;
};

}  // namespace

void call_operator(Operator& op, torch::jit::Stack* stack) {
  try {
    Invocation(op, stack).run();
  } catch (const hlo::TypeError& error) {
    TORCH_CHECK(false, op.name, ": ", error.what());
  } catch (const pjrt::Error& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, error.code() != PJRT_Error_Code_RESOURCE_EXHAUSTED, op.name, ": ",
                     error.what());
    TORCH_CHECK(false, op.name, ": ", error.what());
  }
}

at::Tensor call_operator(Operator& op, std::vector<c10::IValue> arguments) {
  torch::jit::Stack stack(std::make_move_iterator(arguments.begin()),
                          std::make_move_iterator(arguments.end()));
  call_operator(op, &stack);
  return stack.empty() || !stack[0].isTensor() ? at::Tensor() : stack[0].toTensor();
}

}  // namespace tpu::runtime
