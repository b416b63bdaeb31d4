// SPDX-License-Identifier: Apache-2.0
// Compiled programs: `Compiled` can be looked at and saved, `Executable` can also run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pjrt/buffer.h"

namespace tpu::pjrt {

// Memory that a program needs on a device, as the compiler planned it.
struct CompiledMemoryStats {
  int64_t code = 0, arguments = 0, outputs = 0, alias = 0, temporaries = 0, peak = 0;
};

class Compiled {
 public:
  Compiled(const Api& api, PJRT_Executable* raw);

  size_t num_outputs() const { return num_outputs_; }
  std::string name() const;
  std::vector<PJRT_Buffer_Type> output_types() const;
  std::vector<std::vector<int64_t>> output_dims() const;
  // To be loaded by Client::deserialize of the same plugin build.
  std::string serialize() const;
  // Empty where the plugin does not tell.
  std::optional<CompiledMemoryStats> memory_stats() const;
  // "flops", "bytes accessed" and the like; empty where the plugin does not tell.
  Values cost_analysis() const;
  // The program after the compiler's passes, in the plugin's format (XLA: a serialized HloModuleProto).
  std::string optimized_program() const;

 protected:
  const Api& api() const { return *raw_.get_deleter().api; }

 private:
  ExecutablePtr raw_;
  size_t num_outputs_;
};

class Executable : public Compiled {
 public:
  Executable(const Api& api, PJRT_LoadedExecutable* raw) : Executable(LoadedExecutablePtr(raw, {&api})) {}

  PJRT_LoadedExecutable* get() const { return loaded_.get(); }

  // Launches on one device and returns at once. `outputs` must have num_outputs() places; the caller owns
  // what is put there. `device` must be given for a portable program and be null for one compiled for its own
  // device. Arguments that the program aliases to outputs (tf.aliasing_output) are donated, and deleted by
  // the call, unless their index is in `non_donatable`. Failures of the work itself show in the outputs'
  // ready().
  void execute(std::span<PJRT_Buffer* const> args, std::span<PJRT_Buffer*> outputs, PJRT_Device* device,
               std::span<const int64_t> non_donatable = {}) const {
    if (outputs.size() != num_outputs()) [[unlikely]]
      throw_outputs(outputs.size());
    PJRT_Buffer* const* arg_list = args.data();
    PJRT_Buffer** output_list = outputs.data();
    launch(&arg_list, args.size(), &output_list, 1, device, non_donatable);
  }

  // Launches on all devices the program was compiled for: one list of arguments and outputs for each, all of
  // the same length, in the order of devices().
  void execute(std::span<const std::vector<PJRT_Buffer*>> args, std::span<std::vector<PJRT_Buffer*>> outputs,
               std::span<const int64_t> non_donatable = {}) const;

  // The addressable devices that the program was compiled for; empty for a portable program.
  std::vector<Device> devices() const;

 private:
  explicit Executable(LoadedExecutablePtr loaded);
  void launch(PJRT_Buffer* const* const* args, size_t num_args, PJRT_Buffer** const* outputs,
              size_t num_devices, PJRT_Device* device, std::span<const int64_t> non_donatable) const {
    auto options = PJRT_ARGS(PJRT_ExecuteOptions, .non_donatable_input_indices = non_donatable.data(),
                             .num_non_donatable_input_indices = non_donatable.size());
    PJRT_CALL(api(), PJRT_LoadedExecutable_Execute, .executable = loaded_.get(), .options = &options,
              .argument_lists = args, .num_devices = num_devices, .num_args = num_args,
              .output_lists = outputs, .execute_device = device);
  }
  [[noreturn]] void throw_outputs(size_t got) const;

  LoadedExecutablePtr loaded_;
};

}  // namespace tpu::pjrt
