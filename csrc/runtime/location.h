// SPDX-License-Identifier: Apache-2.0
// Where in the user's Python code an op was called, for errors that show up later.
#pragma once

#include <string>

namespace tpu::runtime {

// A place in Python code, as cheap to take as possible; turned into text only when an error has to name it.
struct Location {
  void* code = nullptr;  // a code object that is kept alive for good
  int instruction = -1;
};

struct LocationHooks {
  Location (*take)() = nullptr;                 // of the calling thread; empty without Python's lock
  std::string (*describe)(Location) = nullptr;  // "train.py:12 in step"; may be called without Python's lock
};

void set_location_hooks(LocationHooks hooks);
Location here();
std::string describe(Location location);  // "" if unknown

}  // namespace tpu::runtime
