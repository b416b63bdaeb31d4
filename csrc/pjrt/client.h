// SPDX-License-Identifier: Apache-2.0
// The runtime of a plugin: its devices, compilation, and arrays from the host.
//
//   Client client(Api::load(path), {}, {{"cpu_device_count", int64_t{2}}});
//   Executable add = client.compile(text, CompileOptions{}.encode());
//   auto [x, done] = client.from_host(data, PJRT_Buffer_Type_F32, dims, client.devices()[0], semantics);
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/executable.h"
#include "pjrt/options.h"

namespace tpu::pjrt {

struct FromHost {
  Buffer buffer;
  // When the plugin no longer reads the host's memory (for zero-copy semantics: when the buffer is freed).
  Event done_with_host;
};

class Client {
 public:
  // `required` options are passed as they are. `wanted` ones are left out if the plugin refuses them; see
  // wanted_kept(). Plugins up to PJRT 0.106 ignore an unknown option (so count the devices), and end the
  // process for one of the wrong type.
  explicit Client(const Api& api, const Values& required = {}, const Values& wanted = {});
  // The PJRT client is not destroyed: buffers and threads may be alive until the process ends.
  ~Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Api& api() const { return api_; }
  PJRT_Client* get() const { return raw_; }
  bool wanted_kept() const { return wanted_kept_; }

  // The devices of this process.
  const std::vector<Device>& devices() const { return devices_; }
  // All devices, also those of other processes.
  std::vector<Device> all_devices() const;
  int process_index() const;
  std::string platform_name() const;
  std::string platform_version() const;
  // Everything outside of program and options that a compiled program depends on: the plugin's build, its
  // platform and version, the kind of device, and the host's processor, for which CPU plugins generate code.
  const std::string& identity() const { return identity_; }

  // The options without the xla_flags and xla_extra_options that this plugin does not know, found by
  // compiling an empty program (5 ms, 10 with extra options). Keep the result.
  CompileOptions supported(CompileOptions options) const;
  // StableHLO as text or bytecode.
  Executable compile(std::string_view stablehlo_text, const std::string& encoded_options) const;
  // Loads the result of Compiled::serialize. Bytes of another build or cut bytes are an Error, or worse: key
  // them by identity() and check their integrity.
  Executable deserialize(std::string_view bytes) const;

  // Dense row-major `data`, or with a step in bytes per dimension.
  FromHost from_host(const void* data, PJRT_Buffer_Type type, std::span<const int64_t> dims,
                     const Device& device,
                     PJRT_HostBufferSemantics semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
                     std::span<const int64_t> byte_strides = {}) const;

 private:
  const Api& api_;
  bool wanted_kept_ = true;
  PJRT_Client* raw_;
  std::vector<Device> devices_;
  std::string identity_;
};

}  // namespace tpu::pjrt
