// SPDX-License-Identifier: Apache-2.0
// One program for all sizes up to a bound.
//
// A program recorded for n tokens is written again for `bound` tokens: each dim that depends on n gets its
// size at the bound, and the true n becomes an operand. The first elements of a padded dim are the true ones;
// behind them lies anything. Ops that would see it get a mask: a sum adds zeros, a matrix product contracts
// zeros, a concatenation writes its second part behind the true end of the first. What can't be done so
// raises Unpaddable, and the program is compiled for its one size as if nothing had been tried.
#pragma once

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "hlo/skeleton.h"

namespace tpu::hlo {

struct Unpaddable : std::logic_error {
  using std::logic_error::logic_error;
};

struct Padded {
  std::unique_ptr<Program> program;  // the parameters of the original, then n: kS32, 0-d
  std::vector<Value> outputs;
  std::vector<Type> parameter_types,
      output_types;  // as they are padded; outputs: zero or more elements longer
};

// The largest offset of a dim `n + offset` among parameters and outputs.
int64_t margin_of(const Program& program, std::span<const Value> outputs, const Fit& fit);
// `program`, `outputs`, `fit`: as skeleton_of and fit() take and give them. All dims n + offset of parameters
// and outputs become bound + margin_of().
Padded pad_program(const Program& program, std::span<const Value> outputs, const Fit& fit, int64_t bound);

}  // namespace tpu::hlo
