// SPDX-License-Identifier: Apache-2.0
// Texts of PJRT errors.
#include "pjrt/error.h"

#include <array>

namespace tpu::pjrt {

std::string_view code_name(PJRT_Error_Code code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN_CODE";
}

static std::string join(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (std::string_view part : parts) text += part;
  return text;
}

Error::Error(PJRT_Error_Code code, const char* call, std::string_view text)
    : std::runtime_error(join({call, ": ", code_name(code), ": ", text})), code_(code), call_(call) {}

LoadError::LoadError(const std::string& path, std::string_view problem)
    : std::runtime_error(
          join({"cannot load the PJRT plugin '", path, "': ", problem,
                ". Set TORCH_TPU_PLUGIN to the path of a PJRT plugin (libtpu.so, or an XLA CPU "
                "plugin such as the one in the wheel lammps-jax-pjrt-cpu)."})) {}

}  // namespace tpu::pjrt
