// SPDX-License-Identifier: Apache-2.0
// Move-only owners of PJRT objects: BufferPtr, EventPtr, ...
#pragma once

#include <memory>

#include "pjrt/api.h"

// Declares <Name>Ptr. `field` is the object's field in PJRT_<Name>_Destroy_Args. Destroying never throws: an
// error there can only be dropped, but it is freed.
#define PJRT_OWNED(Name, field)                                           \
  struct Name##Deleter {                                                  \
    const Api* api = nullptr;                                             \
    void operator()(PJRT_##Name* object) const noexcept {                 \
      auto args = PJRT_ARGS(PJRT_##Name##_Destroy_Args, .field = object); \
      auto destroy = (*api)->PJRT_##Name##_Destroy;                       \
      if (destroy == nullptr) return;                                     \
      if (PJRT_Error* error = destroy(&args)) api->destroy(error);        \
    }                                                                     \
  };                                                                      \
  using Name##Ptr = std::unique_ptr<PJRT_##Name, Name##Deleter>

namespace tpu::pjrt {

PJRT_OWNED(Buffer, buffer);
PJRT_OWNED(Event, event);
PJRT_OWNED(Executable, executable);
PJRT_OWNED(LoadedExecutable, executable);
PJRT_OWNED(TopologyDescription, topology);

}  // namespace tpu::pjrt
