// SPDX-License-Identifier: Apache-2.0
// PyTorch storages and tensors over cells.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include "runtime/array.h"
#include "runtime/views.h"

namespace tpu::runtime {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

inline bool on_device(const at::Tensor& tensor) { return tensor.device().type() == kDevice; }

// The allocator that storages of the device name; allocate() makes an empty cell.
c10::Allocator* allocator();

// A storage over a new cell. `array` may be empty: memory that nobody has written.
c10::Storage make_storage(Chip& chip, size_t bytes, hlo::Type made_as, ArrayRef array = {});
at::Tensor make_tensor(c10::Storage storage, c10::ScalarType dtype, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides, int64_t offset = 0);
// A tensor over a new storage that is just as large as it has to be. The array's dims are the tensor's in
// memory order.
at::Tensor make_tensor(Chip& chip, c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       ArrayRef array = {});
// The type that the array of a dense tensor with these sizes and strides has: dims in memory order. For
// strides with gaps or overlaps, a flat one of the elements spanned.
hlo::Type memory_type(c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides);

// Raises for a storage that this backend did not make.
Cell& cell_of(const c10::Storage& storage);
Cell& cell_of(const at::Tensor& tensor);
Chip& chip_of(const at::Tensor& tensor);

// The type of the cell's array, or that of the array which a first write will make.
hlo::Type array_type(const Cell& cell, size_t storage_bytes);

// True if the tensor is its storage's whole array in dims and dtype, so that the array can be used as it is.
bool is_whole(const at::Tensor& tensor, const Cell& cell);
// The view for a tensor that is not whole.
View view_of(const at::Tensor& tensor, const hlo::Type& array_type);

// Changes the size of a storage. What fits of the contents stays.
void resize_storage(const c10::Storage& storage, size_t bytes);

}  // namespace tpu::runtime
