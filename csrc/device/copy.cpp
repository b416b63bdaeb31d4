// SPDX-License-Identifier: Apache-2.0
// Copies between host and chips.
#include "device/copy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include "device/host_allocator.h"
#include "lower/cast.h"
#include "runtime/capture.h"
#include "runtime/chip.h"
#include "runtime/config.h"
#include "runtime/dispatch.h"
#include "runtime/padding.h"

namespace tpu::device {
namespace {

using runtime::ArrayRef;
using runtime::Chip;

// copy_(self, src): what is written is src in self's dtype. Also the road of clone, contiguous and to().
runtime::Operator& copy_operator() {
  static const lower::Row row = {
      "copy_", [](lower::Args& a) { return hlo::broadcast_to(lower::cast(a[1], a.dtype(0)), a.dims(0)); },
      lower::kNoMeta};
  static runtime::Operator* op = runtime::operator_for("copy_", row);
  return *op;
}

void copy_on_chip(const at::Tensor& source, const at::Tensor& target) {
  runtime::call_operator(copy_operator(), {target, source, false});
}

// True if the array of `target` is simply replaced when all of it is written.
bool takes_whole(const at::Tensor& target) {
  return target.is_contiguous() && target.storage_offset() == 0 && target.numel() > 0 &&
         target.storage().nbytes() == static_cast<size_t>(target.numel()) * target.dtype().itemsize();
}

hlo::Type type_of(const at::Tensor& tensor) {
  return {lower::dtype_of(tensor.scalar_type()), hlo::Dims(tensor.sizes().begin(), tensor.sizes().end())};
}

void from_host(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  if (runtime::Capture* capture = runtime::Capture::active())
    return copy_on_chip(capture->copy_of_host(source), target);
  Chip& chip = runtime::chip_of(target);
  at::Tensor host = source.contiguous();
  ArrayRef array;
  if (non_blocking && is_pinned_pointer(host.data_ptr())) {
    pjrt::Event done;
    array = chip.from_host_async(host.data_ptr(), type_of(host), &done);
    // The tensor stays alive until the plugin has read it.
    done.on_ready([host](std::optional<pjrt::Error>) {});
  } else {
    array = chip.from_host(host.data_ptr(), type_of(host));
  }
  if (host.scalar_type() == target.scalar_type() && host.sizes() == target.sizes() && takes_whole(target)) {
    std::lock_guard guard(runtime::lock());
    runtime::cell_of(target).array = std::move(array);
    return;
  }
  at::Tensor staged =
      runtime::make_tensor(chip, host.scalar_type(), host.sizes(), host.strides(), std::move(array));
  copy_on_chip(staged, target);
}

// Complete when it returns, also if non_blocking: the host reads the memory without asking us.
void to_host(const at::Tensor& source, const at::Tensor& target) {
  const ArrayRef array = elements(source);
  const bool direct = target.scalar_type() == source.scalar_type() && target.is_contiguous() &&
                      target.sizes() == source.sizes();
  at::Tensor host =
      direct ? target : at::empty(source.sizes(), source.options().device(c10::kCPU).pinned_memory(false));
  runtime::chip_of(source).to_host(array, host.data_ptr());
  if (!direct) target.copy_(host);
}

void between_chips(const at::Tensor& source, const at::Tensor& target) {
  Chip& to = runtime::chip_of(target);
  const ArrayRef array = elements(source);
  at::Tensor there;
  {
    std::lock_guard guard(runtime::lock());
    if (array->pending()) array->recording()->force();
    runtime::fit_buffer(*array, array->type().dims);
    to.reserve(static_cast<int64_t>(array->type().bytes()), "copy between chips");
    ArrayRef moved(new runtime::Array(to, array->type(), array->pjrt_buffer().copy_to(to.device()),
                                      to.log_launch("copy between chips", runtime::here())));
    there = runtime::make_tensor(to, source.scalar_type(), source.sizes(),
                                 at::empty(source.sizes(), at::kMeta).strides(), std::move(moved));
  }
  copy_on_chip(there, target);
}

}  // namespace

ArrayRef elements(const at::Tensor& tensor) {
  {
    std::lock_guard guard(runtime::lock());
    const runtime::Cell& cell = runtime::cell_of(tensor);
    if (cell.array && cell.array->type().dtype == lower::dtype_of(tensor.scalar_type()) &&
        tensor.is_contiguous() && tensor.storage_offset() == 0 &&
        cell.array->type().numel() == tensor.numel())
      return cell.array;
  }
  at::Tensor dense = runtime::make_tensor(runtime::chip_of(tensor), tensor.scalar_type(), tensor.sizes(),
                                          at::empty(tensor.sizes(), at::kMeta).strides());
  copy_on_chip(tensor, dense);
  std::lock_guard guard(runtime::lock());
  return runtime::cell_of(dense).array;
}

namespace {

void copy_plain(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  if (!runtime::on_device(source)) return from_host(source, target, non_blocking);
  if (!runtime::on_device(target)) return to_host(source.expand_as(target), target);
  if (source.device() == target.device()) return copy_on_chip(source, target);
  between_chips(source, target);
}

// The same elements without the lazy conjugation and negation bits.
at::Tensor plain(const at::Tensor& tensor) {
  at::Tensor result = tensor.is_conj() ? tensor._conj() : tensor;
  return result.is_neg() ? result._neg_view() : result;
}

}  // namespace

void copy_between(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  if (target.numel() == 0) return;
  for (const at::Tensor& side : {source, target})
    TORCH_CHECK_NOT_IMPLEMENTED(runtime::on_device(side) || side.is_cpu(), "copy_: copies between tpu and ",
                                side.device().type(), " go through the CPU: use .cpu()");
  const at::Tensor to = plain(target);
  copy_plain(plain(source), to, non_blocking);
  if (source.is_conj() != target.is_conj()) to.conj_physical_();
  if (source.is_neg() != target.is_neg()) to.neg_();
}

}  // namespace tpu::device
