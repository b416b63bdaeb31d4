// SPDX-License-Identifier: Apache-2.0
// Callbacks of events.
#include "pjrt/event.h"

namespace tpu::pjrt {
namespace {

struct Callback {
  const Api* api;
  std::function<void(std::optional<Error>)> function;
};

void run_callback(PJRT_Error* error, void* user_arg) {
  std::unique_ptr<Callback> callback(static_cast<Callback*>(user_arg));
  try {
    std::optional<Error> taken;
    if (error != nullptr) taken = callback->api->take(error, "PJRT_Event_OnReady");
    callback->function(std::move(taken));
  } catch (...) {
    // The caller is C code of the plugin: nothing may pass through it.
  }
}

}  // namespace

void Event::on_ready(std::function<void(std::optional<Error>)> callback) const {
  auto context = std::make_unique<Callback>(&api(), std::move(callback));
  // The plugin may run and free the context within the call, so it is given up before; on failure it is still
  // ours.
  Callback* raw = context.release();
  try {
    PJRT_CALL(api(), PJRT_Event_OnReady, .event = raw_.get(), .callback = run_callback, .user_arg = raw);
  } catch (...) {
    delete raw;
    throw;
  }
}

}  // namespace tpu::pjrt
