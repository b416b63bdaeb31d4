// SPDX-License-Identifier: Apache-2.0
// Clients: creation with options that a plugin may refuse, compilation, transfers from the host.
#include "pjrt/client.h"

#include <algorithm>
#include <cstdio>

#include "pjrt/named_values.h"

namespace tpu::pjrt {
namespace {

PJRT_Client* create(const Api& api, const Values& values) {
  std::vector<PJRT_NamedValue> options = named_values(values);
  return PJRT_CALL(api, PJRT_Client_Create, .create_options = options.data(), .num_options = options.size())
      .client;
}

std::vector<Device> wrap_devices(const Api& api, PJRT_Device* const* devices, size_t count) {
  std::vector<Device> result;
  result.reserve(count);
  for (PJRT_Device* device : std::span(devices, count)) result.emplace_back(api, device);
  return result;
}

// Model and features of the first processor, hashed.
std::string host_processor() {
  std::string text(4096, '\0');
  if (std::FILE* file = std::fopen("/proc/cpuinfo", "r")) {
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
  }
  std::string wanted;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    if (line.empty()) break;
    for (std::string_view key :
         {"vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU part"}) {
      if (line.starts_with(key)) wanted += line;
    }
  }
  // FNV-1a: unlike std::hash the same in every process and library.
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char c : wanted) hash = (hash ^ c) * 0x100000001b3ull;
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

}  // namespace

Client::Client(const Api& api, const Values& required, const Values& wanted) : api_(api) {
  Values all = required;
  all.insert(wanted.begin(), wanted.end());
  try {
    raw_ = create(api, all);
  } catch (const Error& error) {
    bool refused = error.code() == PJRT_Error_Code_INVALID_ARGUMENT ||
                   error.code() == PJRT_Error_Code_NOT_FOUND || error.code() == PJRT_Error_Code_UNIMPLEMENTED;
    if (!refused || wanted.empty()) throw;
    raw_ = create(api, required);
    wanted_kept_ = false;
  }
  auto args = PJRT_CALL(api, PJRT_Client_AddressableDevices, .client = raw_);
  devices_ = wrap_devices(api, args.addressable_devices, args.num_addressable_devices);
  identity_ = api.build_id() + "|" + platform_name() + "|" + platform_version() + "|" +
              (devices_.empty() ? "" : devices_[0].kind()) + "|" + host_processor();
}

std::vector<Device> Client::all_devices() const {
  auto args = PJRT_CALL(api_, PJRT_Client_Devices, .client = raw_);
  return wrap_devices(api_, args.devices, args.num_devices);
}

int Client::process_index() const {
  return PJRT_CALL(api_, PJRT_Client_ProcessIndex, .client = raw_).process_index;
}

std::string Client::platform_name() const {
  auto args = PJRT_CALL(api_, PJRT_Client_PlatformName, .client = raw_);
  return {args.platform_name, args.platform_name_size};
}

std::string Client::platform_version() const {
  auto args = PJRT_CALL(api_, PJRT_Client_PlatformVersion, .client = raw_);
  return {args.platform_version, args.platform_version_size};
}

CompileOptions Client::supported(CompileOptions options) const {
  auto compiled = [this](const CompileOptions& probe) -> std::optional<Executable> {
    try {
      return compile("func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }",
                     probe.encode());
    } catch (const Error&) {
      return {};
    }
  };
  CompileOptions plain;
  plain.xla_flags = options.xla_flags;
  std::optional<Executable> probe = compiled(plain);
  if (!probe) {
    std::erase_if(options.xla_flags, [&](const auto& flag) {
      CompileOptions one;
      one.xla_flags = {flag};
      return !compiled(one);
    });
    plain.xla_flags = options.xla_flags;
    probe = compiled(plain);
  }
  if (options.xla_extra_options.empty() || !probe) return options;
  // The options with the debug options that the probe names, or none.
  try {
    plain.debug_options = debug_options_of(probe->serialize()).value_or("");
  } catch (const Error&) {
    plain.debug_options.clear();
  }
  plain.xla_extra_options = options.xla_extra_options;
  if (!plain.debug_options.empty() && compiled(plain))
    options.debug_options = plain.debug_options;
  else
    options.xla_extra_options.clear();
  return options;
}

Executable Client::compile(std::string_view stablehlo_text, const std::string& encoded_options) const {
  static constexpr std::string_view kFormat = "mlir";
  // PJRT only reads the code; the field is not const because other functions write there.
  auto program =
      PJRT_ARGS(PJRT_Program, .code = const_cast<char*>(stablehlo_text.data()),
                .code_size = stablehlo_text.size(), .format = kFormat.data(), .format_size = kFormat.size());
  return {api_,
          PJRT_CALL(api_, PJRT_Client_Compile, .client = raw_, .program = &program,
                    .compile_options = encoded_options.data(), .compile_options_size = encoded_options.size())
              .executable};
}

Executable Client::deserialize(std::string_view bytes) const {
  return {api_, PJRT_CALL(api_, PJRT_Executable_DeserializeAndLoad, .client = raw_,
                          .serialized_executable = bytes.data(), .serialized_executable_size = bytes.size())
                    .loaded_executable};
}

FromHost Client::from_host(const void* data, PJRT_Buffer_Type type, std::span<const int64_t> dims,
                           const Device& device, PJRT_HostBufferSemantics semantics,
                           std::span<const int64_t> byte_strides) const {
  static constexpr const char* kCall = "PJRT_Client_BufferFromHostBuffer";
  // XLA ends the process on an unknown element type or a null pointer.
  auto bytes = host_bytes(type, dims);
  if (!bytes) {
    throw Error(PJRT_Error_Code_INVALID_ARGUMENT, kCall,
                "expected a type of array elements and sizes from 0, got element type " +
                    std::to_string(type) + " with " + std::to_string(dims.size()) + " dimensions");
  }
  if (data == nullptr && *bytes > 0) {
    throw Error(PJRT_Error_Code_INVALID_ARGUMENT, kCall,
                "expected " + std::to_string(*bytes) + " bytes of data, got a null pointer");
  }
  if (!byte_strides.empty() && byte_strides.size() != dims.size()) {
    throw Error(
        PJRT_Error_Code_INVALID_ARGUMENT, kCall,
        "expected " + std::to_string(dims.size()) + " strides, got " + std::to_string(byte_strides.size()));
  }
  static const char kNothing = 0;
  auto args = PJRT_CALL(
      api_, PJRT_Client_BufferFromHostBuffer, .client = raw_, .data = data != nullptr ? data : &kNothing,
      .type = type, .dims = dims.data(), .num_dims = dims.size(), .byte_strides = byte_strides.data(),
      .num_byte_strides = byte_strides.size(), .host_buffer_semantics = semantics, .device = device.get());
  return {Buffer(api_, args.buffer), Event(api_, args.done_with_host_buffer)};
}

}  // namespace tpu::pjrt
