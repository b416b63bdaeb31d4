// SPDX-License-Identifier: Apache-2.0
// Compiling ahead of time for a named topology.
#include "runtime/ahead.h"

#include <c10/util/Exception.h>

#include "pjrt/options.h"
#include "pjrt/topology.h"
#include "runtime/chip.h"

namespace tpu::runtime {

std::map<std::string, int64_t> compile_ahead(const std::string& plugin, const std::string& topology,
                                             const std::string& text) {
  TORCH_CHECK(!runtime_made(),
              "compile_ahead: this process uses a tpu device already. Compile ahead of time in a process of "
              "its own.");
  static auto* topologies = new std::map<std::pair<std::string, std::string>, pjrt::Topology>;
  auto found = topologies->find({plugin, topology});
  if (found == topologies->end())
    found =
        topologies
            ->emplace(std::pair(plugin, topology), pjrt::Topology::create(pjrt::Api::load(plugin), topology))
            .first;
  pjrt::CompileOptions options;
  options.portable = false;
  const pjrt::Compiled compiled = found->second.compile(text, options.encode());
  std::map<std::string, int64_t> result;
  if (const auto stats = compiled.memory_stats())
    result = {{"code", stats->code},   {"arguments", stats->arguments},     {"outputs", stats->outputs},
              {"alias", stats->alias}, {"temporaries", stats->temporaries}, {"peak", stats->peak}};
  return result;
}

}  // namespace tpu::runtime
