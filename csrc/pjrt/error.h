// SPDX-License-Identifier: Apache-2.0
// Errors of a PJRT plugin, as exceptions.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "pjrt_c_api.h"

namespace tpu::pjrt {

// "RESOURCE_EXHAUSTED" for PJRT_Error_Code_RESOURCE_EXHAUSTED.
std::string_view code_name(PJRT_Error_Code code);

// A PJRT call failed. The text is "<function>: <CODE_NAME>: <what the plugin said>".
class Error : public std::runtime_error {
 public:
  Error(PJRT_Error_Code code, const char* call, std::string_view text);

  PJRT_Error_Code code() const { return code_; }
  // The C function, a string literal.
  const char* call() const { return call_; }

 private:
  PJRT_Error_Code code_;
  const char* call_;
};

// A plugin could not be loaded. The text says the path, what is wrong with it, and what to do.
class LoadError : public std::runtime_error {
 public:
  LoadError(const std::string& path, std::string_view problem);
};

}  // namespace tpu::pjrt
