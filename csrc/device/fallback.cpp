// SPDX-License-Identifier: Apache-2.0
// Ops without a rule: run on the CPU, counted and said once per operator, or refused
// (TORCH_TPU_FALLBACK=error).
#include <ATen/native/CPUFallback.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "runtime/config.h"
#include "runtime/counters.h"
#include "runtime/location.h"
#include "runtime/storage.h"

namespace tpu::device {
namespace {

void check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  c10::Device first(runtime::kDevice);
  bool found = false;
  const auto check = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided, op.schema().name(),
                                ": expected dense tensors, got one with layout ", tensor.layout(),
                                ". Sparse tensors are not supported on tpu.");
    if (tensor.is_cpu() && tensor.dim() == 0) return;
    if (!found) first = tensor.device();
    found = true;
    TORCH_CHECK(tensor.device() == first, op.schema().name(),
                ": Expected all tensors to be on the same device, but found at least two devices, ", first,
                " and ", tensor.device(), "!");
  };
  for (const c10::IValue& value : torch::jit::last(stack, count)) {
    if (value.isTensor())
      check(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) check(tensor);
  }
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::string name = op.schema().name();
  if (!op.schema().overload_name().empty()) name += "." + op.schema().overload_name();
  const bool on_cpu = op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  TORCH_CHECK_NOT_IMPLEMENTED(
      on_cpu, name,
      ": expected an operator that tpu or the CPU can run, got one that neither has. Please "
      "report it with a small example.");
  TORCH_CHECK_NOT_IMPLEMENTED(
      runtime::fallback() != runtime::Fallback::kError, name,
      ": expected an operator that runs on tpu, got one without a lowering, and TORCH_TPU_FALLBACK=error "
      "forbids "
      "to run it on the CPU. Set TORCH_TPU_FALLBACK=warn to allow that, and please report the operator.");
  check_devices(op, *stack);
  runtime::count_fallback(name);
  if (runtime::first_fallback(name)) {
    const std::string where = runtime::describe(runtime::here());
    TORCH_WARN(name, " has no lowering for tpu yet and runs on the CPU",
               where.empty() ? "" : " (called at " + where + ")",
               ". That copies its arguments and results. Set TORCH_TPU_FALLBACK=error to make this an error; "
               "this is said once per "
               "operator, and counted in torch.tpu.counters().");
  }
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>()); }

}  // namespace
}  // namespace tpu::device
