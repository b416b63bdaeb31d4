// SPDX-License-Identifier: Apache-2.0
// A set of chips that need not be there: programs can be compiled for it ahead of time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pjrt/executable.h"

namespace tpu::pjrt {

class Topology {
 public:
  // A name such as "v6e:2x2" (libtpu).
  static Topology create(const Api& api, std::string_view name, const Values& options = {});

  std::string platform_name() const;
  std::string platform_version() const;
  // The kind of each chip; its size is the number of chips.
  std::vector<std::string> device_kinds() const;
  Compiled compile(std::string_view stablehlo_text, const std::string& encoded_options) const;

 private:
  explicit Topology(TopologyDescriptionPtr raw) : raw_(std::move(raw)) {}
  const Api& api() const { return *raw_.get_deleter().api; }
  TopologyDescriptionPtr raw_;
};

}  // namespace tpu::pjrt
