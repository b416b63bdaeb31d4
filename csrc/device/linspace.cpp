// SPDX-License-Identifier: Apache-2.0
// linspace between tensors: PyTorch's own kernel asks for their values, which a compiled graph does not have.
#include <ATen/ops/arange.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "runtime/storage.h"

namespace tpu::device {
namespace {

using Type = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Device = std::optional<at::Device>;
using Pinned = std::optional<bool>;

at::Tensor between(const at::Tensor& start, const at::Tensor& end, int64_t steps, Type dtype, Layout layout,
                   Device device, Pinned pinned) {
  TORCH_CHECK(start.dim() == 0 && end.dim() == 0,
              "linspace only supports 0-dimensional start and end tensors, but got start with ", start.dim(),
              " dimension(s) and end with ", end.dim(), " dimension(s).");
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const bool complex = start.is_complex() || end.is_complex();
  const auto type = dtype.value_or(complex ? c10::get_default_complex_dtype().toScalarType()
                                           : c10::get_default_dtype_as_scalartype());
  if (!device || device->type() != runtime::kDevice)  // the values leave the tpu
    return at::linspace(start.item(), end.item(), steps, type, layout, device, pinned);
  const auto computed = at::isIntegralType(type, /*includeBool=*/true) ? at::kDouble : type;
  at::Tensor first = start.to(*device, type).to(computed), last = end.to(*device, type).to(computed);
  at::Tensor place = at::arange(steps, at::TensorOptions().dtype(computed).device(*device));
  if (steps < 2) return place.add(first).to(type);
  at::Tensor step = last.sub(first).div(static_cast<double>(steps - 1));
  at::Tensor rising = first.add(step.mul(place));
  at::Tensor falling = last.sub(step.mul(place.neg().add(static_cast<double>(steps - 1))));
  return at::where(at::arange(steps, place.options().dtype(at::kInt)).lt(steps / 2), rising, falling)
      .to(type);
}

at::Tensor from_tensor(const at::Tensor& start, const at::Scalar& end, int64_t steps, Type dtype,
                       Layout layout, Device device, Pinned pinned) {
  return between(start, at::scalar_tensor(end), steps, dtype, layout, device, pinned);
}

at::Tensor to_tensor(const at::Scalar& start, const at::Tensor& end, int64_t steps, Type dtype, Layout layout,
                     Device device, Pinned pinned) {
  return between(at::scalar_tensor(start), end, steps, dtype, layout, device, pinned);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linspace.Tensor_Tensor", &between);
  m.impl("linspace.Tensor_Scalar", &from_tensor);
  m.impl("linspace.Scalar_Tensor", &to_tensor);
}

}  // namespace
}  // namespace tpu::device
