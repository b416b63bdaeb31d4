// SPDX-License-Identifier: Apache-2.0
// Buckets: programs that differ only in one size, which grows, share a program for all sizes up to a bound.
//
// The first program of a skeleton is compiled as it is, unless it appends to a parameter: then its rule is
// guessed. When one of another size comes, the two tell how all numbers follow from that size
// (hlo/skeleton.h), and the program is written again for the bucket that the size falls into (hlo/padded.h).
// Each later program is compared with the rule number by number before it counts as one more size: a wrong
// guess costs a compilation, nothing else.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hlo/skeleton.h"
#include "runtime/cache.h"
#include "runtime/padding.h"

namespace tpu::runtime {

class Buckets {
 public:
  // What came of a guess from one program.
  struct Guess {
    int sizes = 0, uses = 0;
    bool wrong() const;  // many uses, and only one size
  };
  struct Choice {
    std::shared_ptr<const pjrt::Executable> executable;
    std::shared_ptr<const Padding> padding;
    std::vector<int> parameters;  // the arguments before the size, among those of the exact program
    std::vector<hlo::Program::Donation> donations;  // with parameters as indices of arguments
    std::shared_ptr<Guess> guess;                   // null: the rule is known
  };
  // The program for several sizes that serves this one, if there is one, or if it is time to make one.
  // `exact`: what closing the program as it is gave. `may_guess`: the choice is asked for again at each use.
  // Without a choice `note` gets what is to say about the program's sizes.
  std::optional<Choice> choose(const hlo::Program& program, std::span<const hlo::Value> outputs,
                               std::span<const hlo::Program::Donation> donations, const hlo::Closed& exact,
                               bool may_guess, CompileNote& note);
  // At the next choice: the present one may be under way.
  void forget() { stale_ = true; }

 private:
  struct Shared {  // a program for the sizes up to a bound
    std::shared_ptr<const pjrt::Executable> executable;
    std::vector<hlo::Dims> arguments, outputs;
    std::vector<hlo::Program::Donation> donations;
  };
  struct Rule {
    hlo::Fit fit;
    bool grows;  // rather than that sizes come and go
    std::shared_ptr<Guess> guess;
    std::map<int64_t, std::shared_ptr<const Shared>> by_bound;
  };
  struct Family {
    std::vector<std::vector<int64_t>> samples;  // numbers of programs that were compiled for one size
    std::vector<std::unique_ptr<Rule>> rules;
    std::string refused;  // why there was no program for several sizes
    int attempts = 0;
  };
  static Rule* known_rule(Family& family, const std::vector<int64_t>& numbers);
  // From an earlier program of the family and this one, or (`may_guess`) from this one alone. `few`: it has
  // few ops.
  std::unique_ptr<Rule> new_rule(Family& family, const hlo::Program& program,
                                 const std::vector<int64_t>& numbers, bool few, bool may_guess) const;
  bool is_time(const Family& family, const std::vector<int64_t>& sample, const hlo::Fit& fit,
               const std::vector<int64_t>& numbers, bool few) const;
  std::shared_ptr<const Shared> make(Rule& rule, int64_t n, const hlo::Extract& part,
                                     std::span<const hlo::Program::Donation> donations, CompileNote note);

  bool stale_ = false;
  std::unordered_map<hlo::Hash, Family, HashOfHash> families_;
  std::unordered_map<hlo::Hash, Choice, HashOfHash> choices_;  // by the exact program
};

Buckets& buckets();  // under lock()

}  // namespace tpu::runtime
