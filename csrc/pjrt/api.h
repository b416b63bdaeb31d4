// SPDX-License-Identifier: Apache-2.0
// A loaded PJRT plugin, and the one way to call into it.
//
//   const Api& api = Api::load("/path/to/libtpu.so");
//   bool ready = PJRT_CALL(api, PJRT_Event_IsReady, .event = event).is_ready;
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "pjrt/error.h"
#include "pjrt_c_api.h"

// Fills struct_size (the header's constant, not sizeof, which counts padding), calls, throws on error, and
// returns the arguments. Fields that are not named are zero.
#define PJRT_CALL(api, Fn, ...) (api).call((api)->Fn, #Fn, PJRT_ARGS(Fn##_Args, __VA_ARGS__))

// A PJRT struct with its struct_size.
#define PJRT_ARGS(Struct, ...) (Struct{.struct_size = Struct##_STRUCT_SIZE, __VA_ARGS__})

namespace tpu::pjrt {

using Value = std::variant<std::string, bool, int64_t, float>;
using Values = std::map<std::string, Value, std::less<>>;

class Api {
 public:
  // Loads a plugin once per path and initializes it. It stays loaded: plugins have threads and global state.
  // Plugins log to stderr what they also return as errors; unless TF_CPP_MIN_LOG_LEVEL is set, only fatal
  // messages are let through.
  static const Api& load(const std::string& path);

  // Wraps a table that is already there (tests). `path` is only used in messages and for build_id().
  Api(const PJRT_Api* table, std::string path);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  const std::string& path() const { return path_; }
  std::pair<int, int> version() const;
  // xla_version, stablehlo_current_version and the like. Lists of integers are joined with dots.
  Values attributes() const;
  // has(&PJRT_Api::PJRT_Compile): whether the plugin has a function.
  template <class Fn>
  bool has(Fn* PJRT_Api::* member) const {
    return table_.*member != nullptr;
  }
  // The extension of that type, or null.
  const PJRT_Extension_Base* extension(PJRT_Extension_Type type) const;
  // Identifies the plugin's file by content, whatever its path: a part of every disk cache key. "" if
  // unreadable.
  const std::string& build_id() const { return build_id_; }

  const PJRT_Api* operator->() const { return &table_; }

  template <class Args>
  Args call(PJRT_Error* (*fn)(Args*), const char* name, Args args) const {
    if (fn == nullptr) [[unlikely]]
      throw_missing(name);
    if (PJRT_Error* error = fn(&args)) [[unlikely]]
      throw take(error, name);
    return args;
  }

  // Turns a PJRT error into an exception object and destroys it.
  Error take(PJRT_Error* error, const char* name) const;
  void destroy(PJRT_Error* error) const noexcept;

 private:
  [[noreturn]] void throw_missing(const char* name) const;

  // A copy of the plugin's table, zero behind the plugin's own struct_size: a function that an older plugin
  // lacks is a null pointer, so one test serves for both and nothing is read out of bounds.
  PJRT_Api table_{};
  std::string path_;
  std::string build_id_;
};

// Plugin-owned named values as a map.
Values to_values(const PJRT_NamedValue* values, size_t count);

}  // namespace tpu::pjrt
