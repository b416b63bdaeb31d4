// SPDX-License-Identifier: Apache-2.0
// An immutable array in the memory of a device.
#pragma once

#include <span>

#include "pjrt/device.h"
#include "pjrt/event.h"
#include "pjrt/type.h"

namespace tpu::pjrt {

class Buffer {
 public:
  Buffer() = default;
  // Takes ownership, for instance of an output of Executable::execute.
  Buffer(const Api& api, PJRT_Buffer* raw) : raw_(raw, {&api}) {}

  explicit operator bool() const { return raw_ != nullptr; }
  PJRT_Buffer* get() const { return raw_.get(); }
  PJRT_Buffer* release() { return raw_.release(); }

  // Lives as long as the buffer.
  std::span<const int64_t> dims() const {
    auto args = PJRT_CALL(api(), PJRT_Buffer_Dimensions, .buffer = raw_.get());
    return {args.dims, args.num_dims};
  }
  PJRT_Buffer_Type type() const {
    return PJRT_CALL(api(), PJRT_Buffer_ElementType, .buffer = raw_.get()).type;
  }
  // On the device, with padding.
  size_t size_in_bytes() const {
    return PJRT_CALL(api(), PJRT_Buffer_OnDeviceSizeInBytes, .buffer = raw_.get()).on_device_size_in_bytes;
  }
  PJRT_Device* device() const { return PJRT_CALL(api(), PJRT_Buffer_Device, .buffer = raw_.get()).device; }
  // Becomes ready when the contents are there, or with the error of the work that makes them. Ask before the
  // buffer is donated: afterwards the event fails at once.
  Event ready() const {
    return {api(), PJRT_CALL(api(), PJRT_Buffer_ReadyEvent, .buffer = raw_.get()).event};
  }
  // True after donation or Delete.
  bool is_deleted() const { return PJRT_CALL(api(), PJRT_Buffer_IsDeleted, .buffer = raw_.get()).is_deleted; }
  // Gives the memory back now, as soon as the pending uses are done.
  void drop() { PJRT_CALL(api(), PJRT_Buffer_Delete, .buffer = raw_.get()); }

  // Copies to `dst`, dense and row-major whatever the layout on the device. `dst` must stay alive until the
  // event is ready.
  Event to_host(void* dst, size_t bytes) const;
  // Waits and copies to `dst`, row-major. Where the buffer lies in host memory (CPU plugins) this reads it
  // directly, which for a scalar takes well under 1 us against some 20 us for to_host and its thread.
  void read(void* dst, size_t bytes) const;
  // A copy on another device of the same client. PJRT refuses the device that the buffer is on.
  Buffer copy_to(const Device& device) const {
    return {api(),
            PJRT_CALL(api(), PJRT_Buffer_CopyToDevice, .buffer = raw_.get(), .dst_device = device.get())
                .dst_buffer};
  }
  // Address in device memory; on CPU plugins host memory. Only valid once ready and while the buffer lives.
  uintptr_t unsafe_pointer() const {
    return PJRT_CALL(api(), PJRT_Buffer_UnsafePointer, .buffer = raw_.get()).buffer_pointer;
  }

 private:
  const Api& api() const { return *raw_.get_deleter().api; }
  BufferPtr raw_;
};

}  // namespace tpu::pjrt
