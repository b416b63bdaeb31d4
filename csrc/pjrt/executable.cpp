// SPDX-License-Identifier: Apache-2.0
// What a compiled program tells of itself, and launches over several devices.
#include "pjrt/executable.h"

namespace tpu::pjrt {

Compiled::Compiled(const Api& api, PJRT_Executable* raw)
    : raw_(raw, {&api}),
      num_outputs_(PJRT_CALL(api, PJRT_Executable_NumOutputs, .executable = raw).num_outputs) {}

std::string Compiled::name() const {
  auto args = PJRT_CALL(api(), PJRT_Executable_Name, .executable = raw_.get());
  return {args.executable_name, args.executable_name_size};
}

std::vector<PJRT_Buffer_Type> Compiled::output_types() const {
  auto args = PJRT_CALL(api(), PJRT_Executable_OutputElementTypes, .executable = raw_.get());
  return {args.output_types, args.output_types + args.num_output_types};
}

std::vector<std::vector<int64_t>> Compiled::output_dims() const {
  auto args = PJRT_CALL(api(), PJRT_Executable_OutputDimensions, .executable = raw_.get());
  std::vector<std::vector<int64_t>> result;
  const int64_t* next = args.dims;
  for (size_t rank : std::span(args.dim_sizes, args.num_outputs)) {
    result.emplace_back(next, next + rank);
    next += rank;
  }
  return result;
}

std::string Compiled::serialize() const {
  auto args = PJRT_CALL(api(), PJRT_Executable_Serialize, .executable = raw_.get());
  std::unique_ptr<PJRT_SerializedExecutable, void (*)(PJRT_SerializedExecutable*)> owner(
      args.serialized_executable, args.serialized_executable_deleter);
  return {args.serialized_bytes, args.serialized_bytes_size};
}

std::optional<CompiledMemoryStats> Compiled::memory_stats() const {
  if (!api().has(&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats)) return std::nullopt;
  try {
    auto args = PJRT_CALL(api(), PJRT_Executable_GetCompiledMemoryStats, .executable = raw_.get());
    return CompiledMemoryStats{.code = args.generated_code_size_in_bytes,
                               .arguments = args.argument_size_in_bytes,
                               .outputs = args.output_size_in_bytes,
                               .alias = args.alias_size_in_bytes,
                               .temporaries = args.temp_size_in_bytes,
                               .peak = args.peak_memory_in_bytes};
  } catch (const Error& error) {
    if (error.code() == PJRT_Error_Code_UNIMPLEMENTED) return std::nullopt;
    throw;
  }
}

Values Compiled::cost_analysis() const {
  if (!api().has(&PJRT_Api::PJRT_Executable_GetCostAnalysis)) return {};
  try {
    auto args = PJRT_CALL(api(), PJRT_Executable_GetCostAnalysis, .executable = raw_.get());
    return to_values(args.properties, args.num_properties);
  } catch (const Error& error) {
    if (error.code() == PJRT_Error_Code_UNIMPLEMENTED) return {};
    throw;
  }
}

std::string Compiled::optimized_program() const {
  auto program = PJRT_ARGS(PJRT_Program, );
  PJRT_CALL(api(), PJRT_Executable_OptimizedProgram, .executable = raw_.get(), .program = &program);
  std::string text(program.code_size, '\0');
  program.code = text.data();
  PJRT_CALL(api(), PJRT_Executable_OptimizedProgram, .executable = raw_.get(), .program = &program);
  return text;
}

Executable::Executable(LoadedExecutablePtr loaded)
    : Compiled(*loaded.get_deleter().api,
               PJRT_CALL(*loaded.get_deleter().api, PJRT_LoadedExecutable_GetExecutable,
                         .loaded_executable = loaded.get())
                   .executable),
      loaded_(std::move(loaded)) {}

void Executable::execute(std::span<const std::vector<PJRT_Buffer*>> args,
                         std::span<std::vector<PJRT_Buffer*>> outputs,
                         std::span<const int64_t> non_donatable) const {
  static constexpr const char* kCall = "PJRT_LoadedExecutable_Execute";
  if (args.empty() || args.size() != outputs.size()) {
    throw Error(PJRT_Error_Code_INVALID_ARGUMENT, kCall,
                "expected arguments and outputs for each device, got " + std::to_string(args.size()) +
                    " and " + std::to_string(outputs.size()) + " lists");
  }
  std::vector<PJRT_Buffer* const*> arg_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].size() != args[0].size()) {
      throw Error(PJRT_Error_Code_INVALID_ARGUMENT, kCall,
                  "expected " + std::to_string(args[0].size()) + " arguments for each device, got " +
                      std::to_string(args[i].size()) + " for device " + std::to_string(i));
    }
    outputs[i].resize(num_outputs());
    arg_lists.push_back(args[i].data());
    output_lists.push_back(outputs[i].data());
  }
  launch(arg_lists.data(), args[0].size(), output_lists.data(), args.size(), nullptr, non_donatable);
}

std::vector<Device> Executable::devices() const {
  auto args = PJRT_CALL(api(), PJRT_LoadedExecutable_AddressableDevices, .executable = loaded_.get());
  std::vector<Device> result;
  for (PJRT_Device* device : std::span(args.addressable_devices, args.num_addressable_devices)) {
    result.emplace_back(api(), device);
  }
  return result;
}

void Executable::throw_outputs(size_t got) const {
  throw Error(
      PJRT_Error_Code_INVALID_ARGUMENT, "PJRT_LoadedExecutable_Execute",
      "expected places for " + std::to_string(num_outputs()) + " outputs, got " + std::to_string(got));
}

}  // namespace tpu::pjrt
