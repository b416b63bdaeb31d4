// SPDX-License-Identifier: Apache-2.0
// The completion of asynchronous work.
#pragma once

#include <functional>
#include <optional>

#include "pjrt/handle.h"

namespace tpu::pjrt {

class Event {
 public:
  Event() = default;
  Event(const Api& api, PJRT_Event* raw) : raw_(raw, {&api}) {}

  // False for an event that was moved from or never set; such an event may not be asked.
  explicit operator bool() const { return raw_ != nullptr; }
  PJRT_Event* get() const { return raw_.get(); }

  // True also if the work failed.
  bool is_ready() const { return PJRT_CALL(api(), PJRT_Event_IsReady, .event = raw_.get()).is_ready; }
  // Waits, and throws the error of the work if it failed.
  void await() const { PJRT_CALL(api(), PJRT_Event_Await, .event = raw_.get()); }
  // Calls `callback` once, with the error if there is one; at once if the event is ready, else on a thread of
  // the plugin. It must not throw (what it throws is dropped), block, or take Python's lock. The event may be
  // destroyed before.
  void on_ready(std::function<void(std::optional<Error>)> callback) const;

 private:
  const Api& api() const { return *raw_.get_deleter().api; }
  EventPtr raw_;
};

}  // namespace tpu::pjrt
