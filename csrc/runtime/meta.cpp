// SPDX-License-Identifier: Apache-2.0
// Running an op's meta kernel on shadows of its arguments.
#include "runtime/meta.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "runtime/storage.h"

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

}  // namespace

void ask_meta(const Operator& op, at::ArrayRef<c10::IValue> arguments, MemoEntry& entry) {
  if (op.row->flags & lower::kNoMeta) return;
  std::vector<c10::IValue> shadows;
  for (size_t i = 0; i < arguments.size(); ++i) shadows.push_back(shadow(arguments[i], op.arguments[i].kind));
  torch::jit::Stack stack(shadows.begin(), shadows.end());
  // Meta tensors only: no autograd, no mode of the caller.
  c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  try {
    op.handle.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    return;  // no meta kernel: the rule's own types count
  }
  for (size_t i = 0; i < op.returns.size(); ++i) {
    if (op.returns[i].alias < 0) collect(stack[i], entry.results);
    if (op.returns[i].number) entry.numbers.push_back(stack[i]);
  }
  for (int i : op.written) collect(shadows[i], entry.written);
  entry.has_specs = true;
}

}  // namespace tpu::runtime
