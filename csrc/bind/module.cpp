// SPDX-License-Identifier: Apache-2.0
// The extension module torch_tpu._C.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include "bind/compiled.h"
#include "bind/python.h"
#include "device/generator.h"
#include "device/operators.h"
#include "device/register.h"
#include "lower/tables.h"
#include "runtime/ahead.h"
#include "runtime/cache.h"
#include "runtime/chip.h"
#include "runtime/config.h"
#include "runtime/counters.h"

namespace py = pybind11;

namespace tpu::bind {
namespace {

void configure(const std::string& plugin, const std::string& why_none, bool is_virtual, int chips,
               int64_t memory_limit, const std::string& cache_dir) {
  runtime::configure({why_none.empty() ? plugin : "", why_none, is_virtual, chips, memory_limit, cache_dir});
}

int64_t host_memory() { return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }

// Bytes that a chip has: its limit, what the plugin says, or (virtual chips without a limit) the host's
// memory.
int64_t total_memory(runtime::Chip& chip) {
  if (chip.memory().limit) return chip.memory().limit;
  if (auto stats = chip.device().memory_stats(); stats && stats->bytes_limit) return *stats->bytes_limit;
  return host_memory();
}

py::dict device_properties(int index) {
  runtime::Chip& chip = runtime::chip(index);
  const auto& client = runtime::runtime().client();
  const auto [major, minor] = client.api().version();
  py::dict result;
  const std::string kind = chip.device().kind();
  result["name"] = runtime::config().is_virtual ? "virtual TPU chip (" + kind + ")" : kind;
  result["kind"] = kind;
  result["virtual"] = runtime::config().is_virtual;
  result["total_memory"] = total_memory(chip);
  result["platform"] = client.platform_name();
  result["platform_version"] = client.platform_version();
  result["pjrt_version"] = std::to_string(major) + "." + std::to_string(minor);
  result["plugin"] = runtime::config().plugin;
  return result;
}

py::dict memory_stats(int index) {
  const runtime::MemoryAccount& memory = runtime::chip(index).memory();
  py::dict result;
  for (const std::string group : {"allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes"}) {
    result[(group + ".all.current").c_str()] = memory.live;
    result[(group + ".all.peak").c_str()] = memory.peak;
    result[(group + ".all.allocated").c_str()] = memory.allocated;
    result[(group + ".all.freed").c_str()] = memory.freed;
  }
  result["allocation.all.current"] = memory.arrays;
  result["allocation.all.allocated"] = memory.allocations;
  result["num_alloc"] = memory.allocations;
  result["num_ooms"] = memory.out_of_memory;
  result["limit_bytes"] = memory.limit;
  return result;
}

std::pair<int64_t, int64_t> mem_get_info(int index) {
  runtime::Chip& chip = runtime::chip(index);
  const int64_t total = total_memory(chip);
  return {std::max<int64_t>(total - chip.memory().live, 0), total};
}

const char* mode_name() {
  switch (runtime::mode()) {
    case runtime::Mode::kStrict:
      return "strict";
    case runtime::Mode::kFused:
      return "fused";
    case runtime::Mode::kDebug:
      return "debug";
  }
  return "";
}

void set_mode(const std::string& name) {
  if (name == "strict")
    runtime::set_mode(runtime::Mode::kStrict);
  else if (name == "fused")
    runtime::set_mode(runtime::Mode::kFused);
  else if (name == "debug")
    runtime::set_mode(runtime::Mode::kDebug);
  else
    throw py::value_error("set_eager_mode: expected 'strict', 'fused' or 'debug', got '" + name + "'");
}

void set_fallback(const std::string& name) {
  if (name == "warn")
    runtime::set_fallback(runtime::Fallback::kWarn);
  else if (name == "error")
    runtime::set_fallback(runtime::Fallback::kError);
  else
    throw py::value_error("set_fallback: expected 'warn' or 'error', got '" + name + "'");
}

// (op, place, ops, why, seconds, from disk) of what was compiled lately.
py::list compilations() {
  std::lock_guard guard(runtime::lock());
  py::list result;
  for (const runtime::Compilation& c : runtime::program_cache().log())
    result.append(py::make_tuple(c.note.op, runtime::describe(c.note.where), c.note.ops, c.note.why,
                                 c.seconds, c.from_disk));
  return result;
}

py::dict counters() {
  const runtime::Counters& c = runtime::counters();
  py::dict result;
  result["compilations"] = c.compilations.load();
  result["memory_hits"] = c.memory_hits.load();
  result["disk_hits"] = c.disk_hits.load();
  result["launches"] = c.launches.load();
  result["syncs"] = c.syncs.load();
  result["compile_seconds"] = static_cast<double>(c.compile_microseconds.load()) * 1e-6;
  py::dict fallbacks;
  for (const auto& [op, count] : runtime::fallbacks()) fallbacks[op.c_str()] = count;
  result["fallbacks"] = fallbacks;
  return result;
}

py::list rules() {
  py::list result;
  for (const lower::Family& family : lower::families())
    for (const lower::Row& row : *family.table) result.append(py::make_tuple(family.name, row.op, row.flags));
  return result;
}

void synchronize(int index) {
  if (runtime::runtime_made()) runtime::chip(index).synchronize();
}

template <class F>
auto wrapped(F f) {
  return torch::wrap_pybind_function(f);
}

PYBIND11_MODULE(_C, m) {
  m.doc() = "The C++ core of torch_tpu.";
  install_python_hooks();
  device::register_rows();
  define_compiled(m);
  m.def("configure", wrapped(&configure), py::arg("plugin"), py::arg("why_none"), py::arg("virtual"),
        py::arg("chips"), py::arg("memory_limit"), py::arg("cache_dir"));
  m.def("is_initialized", &runtime::runtime_made);
  m.def("device_count", &runtime::chip_count);
  m.def("current_device", &runtime::current_chip);
  m.def("set_device", wrapped([](int index) {
          runtime::chip(index);
          runtime::set_current_chip(index);
        }));
  m.def("synchronize", wrapped(&synchronize));
  m.def("device_properties", wrapped(&device_properties));
  m.def("memory_stats", wrapped(&memory_stats));
  m.def("reset_peak_memory_stats", wrapped([](int index) {
          auto& memory = runtime::chip(index).memory();
          memory.peak = memory.live;
        }));
  m.def("empty_cache", wrapped([] {
          if (!runtime::runtime_made()) return;
          for (int i = 0; i < runtime::chip_count(); ++i) runtime::chip(i).drop_scalars();
        }));
  m.def("mem_get_info", wrapped(&mem_get_info));
  m.def("get_eager_mode", &mode_name);
  m.def("set_eager_mode", wrapped(&set_mode));
  m.def("get_fallback", [] { return runtime::fallback() == runtime::Fallback::kError ? "error" : "warn"; });
  m.def("set_fallback", wrapped(&set_fallback));
  m.def("set_buckets", wrapped(&runtime::set_buckets));
  m.def("compilations", &compilations);
  m.def("counters", &counters);
  m.def("reset_counters", &runtime::reset_counters);
  m.def("default_generator", wrapped([](int index) {
          return py::reinterpret_steal<py::object>(
              THPGenerator_Wrap(device::default_generator(static_cast<c10::DeviceIndex>(index))));
        }));
  m.def("rules", &rules);
  m.def("collect_programs", [](bool on) {
    std::lock_guard guard(runtime::lock());
    runtime::program_cache().collect(on);
  });
  m.def("forget_programs", wrapped([] {
          std::lock_guard guard(runtime::lock());
          runtime::program_cache().forget();
        }));
  m.def("take_programs", [] {
    std::lock_guard guard(runtime::lock());
    return runtime::program_cache().take_collected();
  });
  m.def("row_of", [](const std::string& overload) -> std::string {
    const runtime::Operator* op = device::find_operator(overload);
    return op ? op->row->op : "";
  });
  m.def("compile_ahead", wrapped(&runtime::compile_ahead), py::arg("plugin"), py::arg("topology"),
        py::arg("text"));
  m.def("useless_rows", &device::useless_rows);
}

}  // namespace
}  // namespace tpu::bind
