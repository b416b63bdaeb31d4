// SPDX-License-Identifier: Apache-2.0
// Compiling for a chip that is not here: libtpu knows its topologies by name on any machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tpu::runtime {

// Compiles a program's text for the first chip of `topology` ("v6e:2x2") with the plugin at `plugin`. Returns
// what the compiler tells: bytes of code, arguments, outputs, temporaries, and the peak. Raises what it
// refuses. Not in a process that uses a device: two plugins in one process get in each other's way.
std::map<std::string, int64_t> compile_ahead(const std::string& plugin, const std::string& topology,
                                             const std::string& text);

}  // namespace tpu::runtime
