// SPDX-License-Identifier: Apache-2.0
// Ops on storages and metadata: making tensors, views, resizing, copies, and the one element that .item()
// takes.
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "device/copy.h"
#include "lower/rule.h"
#include "runtime/chip.h"
#include "runtime/storage.h"

namespace tpu::device {
namespace {

using OptionalDtype = std::optional<c10::ScalarType>;
using OptionalLayout = std::optional<c10::Layout>;
using OptionalDevice = std::optional<c10::Device>;
using OptionalFormat = std::optional<c10::MemoryFormat>;

runtime::Chip& chip_for(OptionalDevice device, OptionalLayout layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "empty: only dense CPU tensors can be pinned, not tensors on tpu");
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided,
                              "empty: expected a dense layout on tpu, got ", *layout,
                              ". Sparse tensors are not supported on tpu.");
  runtime::check_fork();
  return runtime::chip(device && device->has_index() ? device->index() : runtime::current_chip());
}

c10::ScalarType dtype_for(OptionalDtype dtype) {
  const c10::ScalarType type = dtype.value_or(c10::typeMetaToScalarType(c10::get_default_dtype()));
  lower::dtype_of(type);  // raises for what the device does not have
  return type;
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, OptionalDtype dtype,
                         OptionalLayout layout, OptionalDevice device, std::optional<bool> pin_memory) {
  TORCH_CHECK(size.size() == stride.size(), "empty_strided: expected as many strides as sizes, got ",
              stride.size(), " and ", size.size());
  for (size_t i = 0; i < size.size(); ++i) {
    TORCH_CHECK(size[i] >= 0, "Trying to create tensor with negative dimension ", size[i], ": ", size);
    TORCH_CHECK(stride[i] >= 0, "empty_strided: strides must not be negative, got ", stride);
  }
  return runtime::make_tensor(chip_for(device, layout, pin_memory), dtype_for(dtype), size, stride);
}

at::Tensor empty(at::IntArrayRef size, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                 std::optional<bool> pin_memory, OptionalFormat format) {
  for (int64_t s : size)
    TORCH_CHECK(s >= 0, "Trying to create tensor with negative dimension ", s, ": ", size);
  const c10::MemoryFormat wanted = format.value_or(c10::MemoryFormat::Contiguous);
  std::vector<int64_t> strides(size.size());
  if (wanted == c10::MemoryFormat::Contiguous || wanted == c10::MemoryFormat::Preserve) {
    int64_t stride = 1;
    for (size_t i = size.size(); i-- > 0; stride *= std::max<int64_t>(size[i], 1)) strides[i] = stride;
  } else {
    strides = at::empty(size, at::TensorOptions().device(c10::kMeta).memory_format(wanted)).strides().vec();
  }
  return runtime::make_tensor(chip_for(device, layout, pin_memory), dtype_for(dtype), size, strides);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, OptionalFormat format) {
  int64_t numel = 1;
  for (int64_t s : size) numel *= s;
  const auto bytes = static_cast<size_t>(self.storage_offset() + numel) * self.dtype().itemsize();
  if (numel > 0 && self.storage().nbytes() < bytes) {
    runtime::Cell& cell = runtime::cell_of(self);
    if (!cell.array) cell.made_as = {lower::dtype_of(self.scalar_type()), {self.storage_offset() + numel}};
    runtime::resize_storage(self.storage(), bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  if (format && *format != c10::MemoryFormat::Contiguous && *format != c10::MemoryFormat::Preserve)
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  runtime::cell_of(self);
  TORCH_CHECK(source.device() == self.device(), "set_: expected a storage on ", self.device(),
              ", got one on ", source.device());
  at::native::checkSetStorage(self, source, offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  if (stride.empty() && !size.empty()) {
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  } else {
    self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  }
  int64_t span = offset + 1;
  for (int64_t d = 0; d < self.dim(); ++d)
    span = self.size(d) == 0 ? span : span + (self.size(d) - 1) * self.stride(d);
  const auto bytes = static_cast<size_t>(span) * self.dtype().itemsize();
  if (self.numel() > 0 && self.storage().nbytes() < bytes) runtime::resize_storage(self.storage(), bytes);
  return self;
}

at::Tensor& set_source(at::Tensor& self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  runtime::Chip& chip = runtime::chip_of(self);
  return set_storage(self, runtime::make_storage(chip, 0, {lower::dtype_of(self.scalar_type()), {0}}), 0, {0},
                     {});
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  copy_between(self, target, non_blocking);
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (self.sizes() != target.sizes()) target.resize_(self.sizes());
  copy_between(self, target, false);
  return target;
}

at::Scalar local_scalar(const at::Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  at::Tensor host = at::empty({}, self.options().device(c10::kCPU));
  runtime::chip_of(self).to_host(elements(self), host.data_ptr());
  return host.item();
}

// PyTorch's module.to() keeps a Parameter (and so shared weights, and an optimizer made before) only if this
// says yes.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return self.is_sparse() == from.is_sparse();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("resize_", &resize_);
  m.impl("set_", &set_nothing);
  m.impl("set_.source_Storage", &set_source);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("is_set_to", &at::native::is_set_to);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace tpu::device
