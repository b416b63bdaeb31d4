// SPDX-License-Identifier: Apache-2.0
// Running an op's meta kernel on shadows of its arguments.
#include "runtime/meta.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "runtime/storage.h"
#include "runtime/structured.h"

namespace tpu::runtime {
namespace {

at::Tensor shadow(const at::Tensor& tensor) {
  // Wrapped numbers stay on the CPU: Python meta kernels unwrap them.
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(c10::kMeta).pinned_memory(false));
}

c10::IValue shadow(const c10::IValue& value, Argument::Kind kind) {
  if (value.isTensor()) return shadow(value.toTensor());
  if (value.isDevice()) return c10::Device(c10::kMeta);
  if (kind == Argument::kGenerator) return c10::IValue();
  if (kind != Argument::kTensorList || value.isNone()) return value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& element : value.toTensorVector()) list.push_back(shadow(element));
    return list;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const c10::IValue& element : value.toListRef())
    list.push_back(element.isTensor() ? std::optional(shadow(element.toTensor())) : std::nullopt);
  return list;
}

TensorSpec spec(const at::Tensor& tensor) {
  if (!tensor.defined()) return {.defined = false};
  return {true, tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec()};
}

void collect(const c10::IValue& value, std::vector<TensorSpec>& specs) {
  if (value.isTensor())
    specs.push_back(spec(value.toTensor()));
  else if (!value.isList())
    specs.push_back({.defined = false});
  else if (value.isTensorList())
    for (const at::Tensor& element : value.toTensorVector()) specs.push_back(spec(element));
}

// Whether the row's flags keep these arguments from the meta kernel.
bool kept_from_meta(const lower::Row& row, at::ArrayRef<c10::IValue> arguments) {
  if (row.flags & lower::kNoMeta) return true;
  if (!(row.flags & (lower::kNoMetaOfEmpty | lower::kNoMetaOfGaps))) return false;
  return std::any_of(arguments.begin(), arguments.end(), [&](const c10::IValue& value) {
    if (!value.isTensor() || !value.toTensor().defined()) return false;
    return row.flags & lower::kNoMetaOfEmpty ? value.toTensor().numel() == 0
                                             : !value.toTensor().is_non_overlapping_and_dense();
  });
}

void call_meta(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (const c10::KernelFunction* kernel = structured_meta(op.operator_name()))
    kernel->callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  else
    op.callBoxed(stack);
}

// The meta kernel of the functional form, for out= forms that have none of their own: it sizes what is
// written.
void ask_functional_meta(const Operator& op, const std::vector<c10::IValue>& shadows, MemoEntry& entry) {
  const auto handle = c10::Dispatcher::singleton().findSchema(op.functional->operator_name());
  if (!handle || op.functional_count == op.arguments.size()) return;
  torch::jit::Stack stack(shadows.begin(), shadows.begin() + static_cast<int64_t>(op.functional_count));
  try {
    call_meta(*handle, stack);
  } catch (const c10::NotImplementedError&) {
    return;
  }
  size_t next = 0;
  for (int i : op.written) {
    const bool of_functional = i < static_cast<int>(op.functional_count);
    if (!of_functional && next == stack.size()) return entry.written.clear();
    collect(of_functional ? shadows[i] : stack[next++], entry.written);
  }
  entry.has_specs = true;
}

}  // namespace

void ask_meta(const Operator& op, at::ArrayRef<c10::IValue> arguments, MemoEntry& entry) {
  if (kept_from_meta(*op.row, arguments.slice(0, op.functional_count))) return;
  std::vector<c10::IValue> shadows;
  for (size_t i = 0; i < arguments.size(); ++i) shadows.push_back(shadow(arguments[i], op.arguments[i].kind));
  torch::jit::Stack stack(shadows.begin(), shadows.end());
  // Meta tensors only: no autograd, no mode of the caller.
  c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  try {
    call_meta(op.handle, stack);
  } catch (const c10::NotImplementedError&) {
    return ask_functional_meta(op, shadows, entry);
  }
  for (size_t i = 0; i < op.returns.size(); ++i) {
    if (op.returns[i].alias < 0) collect(stack[i], entry.results);
    if (op.returns[i].number) entry.numbers.push_back(stack[i]);
  }
  for (int i : op.written) collect(shadows[i], entry.written);
  entry.has_specs = true;
}

}  // namespace tpu::runtime
