// SPDX-License-Identifier: Apache-2.0
// Where in the user's Python code an op was called.
#include "runtime/location.h"

namespace tpu::runtime {
namespace {
LocationHooks hooks;
}

void set_location_hooks(LocationHooks given) { hooks = given; }
Location here() { return hooks.take ? hooks.take() : Location{}; }
std::string describe(Location location) {
  return hooks.describe && location.place ? hooks.describe(location) : std::string();
}

}  // namespace tpu::runtime
