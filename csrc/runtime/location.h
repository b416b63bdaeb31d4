// SPDX-License-Identifier: Apache-2.0
// Where in the user's Python code an op was called, for errors that show up later.
#pragma once

#include <string>

namespace tpu::runtime {

// A place in Python code, as cheap to take as possible.
struct Location {
  const void* place = nullptr;  // the hooks' own, kept for good; null: unknown
};

struct LocationHooks {
  Location (*take)() = nullptr;                 // of the calling thread; Python's lock is not needed
  std::string (*describe)(Location) = nullptr;  // "train.py:12 in step"; nor here
};

void set_location_hooks(LocationHooks hooks);
Location here();
std::string describe(Location location);  // "" if unknown

}  // namespace tpu::runtime
