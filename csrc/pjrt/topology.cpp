// SPDX-License-Identifier: Apache-2.0
// Compilation ahead of time.
#include "pjrt/topology.h"

#include "pjrt/named_values.h"

namespace tpu::pjrt {

Topology Topology::create(const Api& api, std::string_view name, const Values& options) {
  std::vector<PJRT_NamedValue> values = named_values(options);
  auto args = PJRT_CALL(api, PJRT_TopologyDescription_Create, .topology_name = name.data(),
                        .topology_name_size = name.size(), .create_options = values.data(),
                        .num_options = values.size());
  return Topology(TopologyDescriptionPtr(args.topology, {&api}));
}

std::string Topology::platform_name() const {
  auto args = PJRT_CALL(api(), PJRT_TopologyDescription_PlatformName, .topology = raw_.get());
  return {args.platform_name, args.platform_name_size};
}

std::string Topology::platform_version() const {
  auto args = PJRT_CALL(api(), PJRT_TopologyDescription_PlatformVersion, .topology = raw_.get());
  return {args.platform_version, args.platform_version_size};
}

std::vector<std::string> Topology::device_kinds() const {
  auto args = PJRT_CALL(api(), PJRT_TopologyDescription_GetDeviceDescriptions, .topology = raw_.get());
  std::vector<std::string> result;
  for (PJRT_DeviceDescription* description : std::span(args.descriptions, args.num_descriptions)) {
    auto kind = PJRT_CALL(api(), PJRT_DeviceDescription_Kind, .device_description = description);
    result.emplace_back(kind.device_kind, kind.device_kind_size);
  }
  return result;
}

Compiled Topology::compile(std::string_view stablehlo_text, const std::string& encoded_options) const {
  static constexpr std::string_view kFormat = "mlir";
  auto program =
      PJRT_ARGS(PJRT_Program, .code = const_cast<char*>(stablehlo_text.data()),
                .code_size = stablehlo_text.size(), .format = kFormat.data(), .format_size = kFormat.size());
  return {api(),
          PJRT_CALL(api(), PJRT_Compile, .topology = raw_.get(), .program = &program,
                    .compile_options = encoded_options.data(), .compile_options_size = encoded_options.size())
              .executable};
}

}  // namespace tpu::pjrt
