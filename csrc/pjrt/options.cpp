// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format of compile options. Field numbers: xla/pjrt/proto/compile_options.proto and
// xla/xla_data.proto.
#include "pjrt/options.h"

#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace tpu::pjrt {
namespace {

// A protobuf message under construction.
class Message {
 public:
  explicit Message(std::string bytes = {}) : bytes_(std::move(bytes)) {}
  Message& integer(int field, int64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& fixed32(int field, uint32_t value) {
    varint(static_cast<uint64_t>(field) << 3 | 5);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(value >> shift);
    return *this;
  }
  Message& string(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return string(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// xla.DeviceAssignmentProto: for each partition the devices of its replicas.
Message device_assignment(const CompileOptions& options) {
  Message result;
  result.integer(1, options.replicas).integer(2, options.partitions);
  for (int p = 0; p < options.partitions; ++p) {
    Message partition;
    for (int r = 0; r < options.replicas; ++r)
      partition.integer(1, options.device_ids[r * options.partitions + p]);
    result.message(3, partition);
  }
  return result;
}

// The first field of this number in a serialized message, which must be bytes (a string, a message).
std::optional<std::string_view> bytes_field(std::string_view message, uint64_t wanted) {
  const auto varint = [&]() -> std::optional<uint64_t> {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    return {};
  };
  while (const auto tag = varint()) {
    std::optional<uint64_t> size;
    switch (*tag & 7) {
      case 0:
        if (!varint()) return {};
        size = 0;
        break;
      case 1:
        size = 8;
        break;
      case 2:
        size = varint();
        break;
      case 5:
        size = 4;
        break;
    }
    if (!size || *size > message.size()) return {};
    if (*tag == (wanted << 3 | 2)) return message.substr(0, *size);
    message.remove_prefix(*size);
  }
  return {};
}

struct Override {
  Message operator()(const std::string& value) const { return std::move(Message().string(1, value)); }
  Message operator()(bool value) const { return std::move(Message().integer(2, value)); }
  Message operator()(int64_t value) const { return std::move(Message().integer(3, value)); }
};

}  // namespace

std::string CompileOptions::encode() const {
  if (replicas < 1 || partitions < 1) {
    throw std::invalid_argument("compile options: expected at least 1 replica and 1 partition, got " +
                                std::to_string(replicas) + " and " + std::to_string(partitions));
  }
  size_t devices = static_cast<size_t>(replicas) * static_cast<size_t>(partitions);
  if (!device_ids.empty() && device_ids.size() != devices) {
    throw std::invalid_argument("compile options: expected " + std::to_string(devices) + " device ids, got " +
                                std::to_string(device_ids.size()));
  }
  Message build;
  // -1 is "no device"; leaving the field out would mean device 0.
  build.integer(1, -1).integer(4, replicas).integer(5, partitions);
  if (partitions > 1 && spmd) build.integer(6, 1);
  if (!device_ids.empty()) build.message(9, device_assignment(*this));
  if (!debug_options.empty()) {
    Message debug(debug_options);
    for (const auto& [name, value] : xla_extra_options)
      debug.message(500, std::move(Message().string(1, name).string(2, value)));
    build.message(3, debug);
  }
  if (shardy) build.integer(19, 1);
  if (effort) build.fixed32(20, std::bit_cast<uint32_t>(*effort));

  Message result;
  result.message(3, build);
  if (portable && devices == 1 && device_ids.empty()) result.integer(4, 1);
  for (const auto& [name, value] : xla_flags) {
    Message entry;
    entry.string(1, name).message(2, std::visit(Override{}, value));
    result.message(7, entry);
  }
  return result.bytes();
}

std::optional<std::string> debug_options_of(std::string_view serialized_executable) {
  // ExecutableAndOptionsProto.compile_options.executable_build_options.debug_options
  std::optional<std::string_view> bytes = serialized_executable;
  for (const int field : {2, 3, 3})
    if (bytes) bytes = bytes_field(*bytes, field);
  return bytes ? std::optional<std::string>(*bytes) : std::nullopt;
}

}  // namespace tpu::pjrt
