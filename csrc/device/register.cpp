// SPDX-License-Identifier: Apache-2.0
// Registers the rows of all tables with PyTorch's dispatcher: one boxed kernel for every op.
#include "device/register.h"

#include <c10/util/Exception.h>
#include <torch/library.h>

#include "device/checks.h"
#include "device/operators.h"

namespace tpu::device {
namespace {

struct Kernel final : c10::OperatorKernel {
  explicit Kernel(runtime::Operator* op) : op(op) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    runtime::call_operator(*op, stack);
  }
  runtime::Operator* op;
};

// For ops whose arguments PyTorch's meta kernels don't look at, or look at although they are run-time
// operands.
struct CheckedKernel final : c10::OperatorKernel {
  CheckedKernel(runtime::Operator* op, Check check) : op(op), check(check) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    check(torch::jit::last(*stack, op->arguments.size()));
    runtime::call_operator(*op, stack);
  }
  runtime::Operator* op;
  Check check;
};

// For the products that PyTorch hands conjugated tensors to as they are (its BLAS takes them so).
struct ResolvingKernel final : c10::OperatorKernel {
  explicit ResolvingKernel(runtime::Operator* op) : op(op) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t count = op->arguments.size();
    for (size_t i = 0; i < count; ++i) {
      c10::IValue& argument = torch::jit::peek(*stack, i, count);
      if (!argument.isTensor() || !argument.toTensor().defined() || !argument.toTensor().is_conj()) continue;
      TORCH_CHECK_NOT_IMPLEMENTED(
          !op->arguments[i].written, op->name,
          ": expected an output without lazy conjugation on tpu, got a conjugated view. Write "
          "into a tensor of its own and copy it.");
      argument = argument.toTensor().resolve_conj();
    }
    runtime::call_operator(*op, stack);
  }
  runtime::Operator* op;
};

bool has_kernel(const runtime::Operator& op, c10::DispatchKey key) {
  return op.handle.hasKernelForDispatchKey(key);
}

}  // namespace

void register_index_ops(torch::Library& library);  // dynamic.cpp

void register_rows() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                                __LINE__);
  register_index_ops(library);
  for (runtime::Operator* op : operators()) {
    // A kernel of ours on a composite op would take its autograd away.
    if (has_kernel(*op, c10::DispatchKey::CompositeImplicitAutograd)) continue;
    if (has_kernel(*op, c10::DispatchKey::PrivateUse1)) continue;  // written by hand
    if (Check check = check_of(op->row->op))
      library.impl(op->name.c_str(),
                   torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CheckedKernel>(op, check)));
    else if (has_kernel(*op, c10::DispatchKey::Conjugate))
      library.impl(op->name.c_str(),
                   torch::CppFunction::makeFromBoxedFunctor(std::make_unique<ResolvingKernel>(op)));
    else
      library.impl(op->name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(op)));
  }
}

std::vector<std::string> useless_rows() {
  std::vector<std::string> result;
  for (runtime::Operator* op : operators())
    if (op->name == op->row->op && has_kernel(*op, c10::DispatchKey::CompositeImplicitAutograd))
      result.push_back(op->name);
  return result;
}

TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace tpu::device
