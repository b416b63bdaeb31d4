// SPDX-License-Identifier: Apache-2.0
// Options of a compilation, written as xla.CompileOptionsProto without a protobuf library.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tpu::pjrt {

struct CompileOptions {
  int replicas = 1;
  int partitions = 1;
  // Compiled for any one device, which is then named at each execution. Ignored for several devices or
  // device_ids.
  bool portable = true;
  // The device of replica r and partition p at [r * partitions + p]; empty leaves the choice to the plugin.
  std::vector<int> device_ids;
  // Partition the program by its sharding annotations (with partitions > 1); with Shardy's dialect if shardy.
  bool spmd = true;
  bool shardy = false;
  // -1 (compile fast) to 1 (run fast); a hint that plugins may ignore.
  std::optional<float> effort;
  // Fields of xla.DebugOptions by name, for this program only. An unknown name is an error of the
  // compilation.
  std::map<std::string, std::variant<std::string, bool, int64_t>> xla_flags;
  // Entries of xla.DebugOptions.xla_backend_extra_options, which xla_flags can't name. They need
  // debug_options: the plugin's own, serialized, as debug_options_of finds them; a message without them would
  // be all zeros.
  std::map<std::string, std::string> xla_extra_options;
  std::string debug_options;

  // The serialized message. Equal options give equal bytes, so it can be part of a cache key.
  std::string encode() const;
};

// The xla.DebugOptions that a program was compiled with, from what XLA's Executable::serialize() gives;
// nothing for the bytes of another compiler.
std::optional<std::string> debug_options_of(std::string_view serialized_executable);

}  // namespace tpu::pjrt
