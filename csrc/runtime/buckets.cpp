// SPDX-License-Identifier: Apache-2.0
// Choosing programs for several sizes.
#include "runtime/buckets.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "hlo/hash.h"
#include "hlo/padded.h"
#include "runtime/config.h"

namespace tpu::runtime {
namespace {

constexpr size_t kMostSamples = 8;
constexpr int kMostAttempts = 4;
constexpr int kPatience = 256;  // uses: all layers of a step may come before the next size
constexpr size_t kMostFamilies = 4096, kMostChoices = 65536;
// Programs of fewer ops are not worth a bucket unless their size just grows.
constexpr int32_t kFewOps = 16;

}  // namespace

Buckets& buckets() {
  static auto* instance = new Buckets;
  return *instance;
}

bool Buckets::Guess::wrong() const { return sizes == 1 && uses > kPatience; }

bool Buckets::is_time(const Family& family, const std::vector<int64_t>& sample, const hlo::Fit& fit,
                      const std::vector<int64_t>& numbers, bool few) const {
  const int64_t n = numbers[fit.base], before = sample[fit.base];
  if (hlo::grows(before, n)) return true;
  // Sizes that come and go: the third one, if all of them follow from one rule.
  if (few || family.samples.size() < 2 || bucket_of(n) == n) return false;
  return std::ranges::count_if(family.samples,
                               [&](const auto& other) { return hlo::solve(fit, other).has_value(); }) >= 2;
}

Buckets::Rule* Buckets::known_rule(Family& family, const std::vector<int64_t>& numbers) {
  for (const auto& known : family.rules)
    if (!(known->guess && known->guess->wrong()) && hlo::solve(known->fit, numbers)) return known.get();
  return nullptr;
}

std::unique_ptr<Buckets::Rule> Buckets::new_rule(Family& family, const hlo::Program& program,
                                                 const std::vector<int64_t>& numbers, bool few,
                                                 bool may_guess) const {
  if (family.samples.empty()) {
    std::optional<hlo::Fit> fit;
    if (family.attempts == 0 && !few && may_guess) fit = hlo::guess(program);
    if (!fit) return nullptr;
    ++family.attempts;
    return std::make_unique<Rule>(Rule{std::move(*fit), /*grows=*/true, std::make_shared<Guess>(), {}});
  }
  if (family.attempts >= kMostAttempts) return nullptr;
  // The latest of those that differ in the fewest numbers.
  const auto differing = [&](const std::vector<int64_t>& sample) {
    size_t count = 0;
    for (size_t i = 0; i < sample.size(); ++i) count += sample[i] != numbers[i];
    return count;
  };
  const auto nearest = std::ranges::min_element(family.samples | std::views::reverse, {}, differing);
  std::optional<hlo::Fit> fit = hlo::fit(*nearest, numbers);
  if (!fit || !is_time(family, *nearest, *fit, numbers, few)) return nullptr;
  ++family.attempts;
  const bool grows = hlo::grows((*nearest)[fit->base], numbers[fit->base]);
  return std::make_unique<Rule>(Rule{std::move(*fit), grows, nullptr, {}});
}

std::optional<Buckets::Choice> Buckets::choose(const hlo::Program& program,
                                               std::span<const hlo::Value> outputs,
                                               std::span<const hlo::Program::Donation> donations,
                                               const hlo::Closed& exact, bool may_guess, CompileNote& note) {
  if (std::exchange(stale_, false)) {
    families_.clear();
    choices_.clear();
  }
  if (!buckets_on()) return {};
  if (auto found = choices_.find(exact.hash); found != choices_.end()) {
    const std::shared_ptr<Guess>& guess = found->second.guess;
    if (guess) ++guess->uses;
    if (!guess || !guess->wrong()) return found->second;
    choices_.erase(found);
    note.why = "its size stays";
    return {};
  }
  hlo::Extract part = hlo::extract(program, outputs);
  hlo::Skeleton skeleton = hlo::skeleton_of(*part.program, part.outputs);
  // By argument; what is given away is part of what the program is.
  std::vector<hlo::Program::Donation> given;
  hlo::Hasher hasher;
  hasher.hash(skeleton.hash);
  for (const auto& donation : donations) {
    const auto at = std::ranges::find(part.parameters, donation.parameter);
    if (at == part.parameters.end()) continue;
    given.push_back({static_cast<int>(at - part.parameters.begin()), donation.output});
    hasher.word(static_cast<uint64_t>(given.back().parameter) << 32 | static_cast<uint32_t>(donation.output));
  }
  if (families_.size() >= kMostFamilies) families_.clear();
  Family& family = families_[hasher.done()];
  const bool few = part.program->op_count() - part.program->parameter_count() < kFewOps;
  std::unique_ptr<Rule> fresh;
  Rule* rule = known_rule(family, skeleton.numbers);
  if (!rule) rule = (fresh = new_rule(family, *part.program, skeleton.numbers, few, may_guess)).get();
  const bool guessed = fresh && fresh->guess;
  const int64_t n = rule ? skeleton.numbers[rule->fit.base] : 0;
  std::shared_ptr<const Shared> shared;
  if (rule) {
    try {
      shared = make(*rule, n, part, given, note);
      if (fresh) family.rules.push_back(std::move(fresh));
    } catch (
        const std::logic_error& why) {  // hlo::Unpaddable, or a TypeError of ours: the exact program is right
      if (!guessed) family.refused = why.what();
      std::erase_if(family.rules, [&](const auto& known) { return known.get() == rule; });
    }
  }
  if (!shared) {
    if (!family.samples.empty()) note.why = "other sizes";
    if (!family.refused.empty()) note.why += "; no program for several: " + family.refused;
    if (family.samples.size() >= kMostSamples) family.samples.erase(family.samples.begin());
  }
  if (!shared || guessed) family.samples.push_back(skeleton.numbers);
  if (!shared) return {};
  if (choices_.size() >= kMostChoices) choices_.clear();
  Choice choice{shared->executable,
                std::make_shared<const Padding>(Padding{shared->arguments, shared->outputs, n}),
                {},
                shared->donations,
                rule->guess};
  if (choice.guess) ++choice.guess->sizes;
  // Another recording of the same program may number its parameters otherwise.
  for (int parameter : part.parameters)
    choice.parameters.push_back(
        static_cast<int>(std::ranges::find(exact.parameters, parameter) - exact.parameters.begin()));
  choices_.emplace(exact.hash, choice);
  return choice;
}

std::shared_ptr<const Buckets::Shared> Buckets::make(Rule& rule, int64_t n, const hlo::Extract& part,
                                                     std::span<const hlo::Program::Donation> donations,
                                                     CompileNote note) {
  const int64_t margin = hlo::margin_of(*part.program, part.outputs, rule.fit);
  const int64_t bound = bucket_of(n + margin, rule.grows) - margin;
  if (bound < n) throw hlo::Unpaddable("no bucket is as large");
  std::shared_ptr<const Shared>& known = rule.by_bound[bound];
  if (known) return known;
  const hlo::Padded padded = hlo::pad_program(*part.program, part.outputs, rule.fit, bound);
  auto shared = std::make_shared<Shared>();
  for (const hlo::Type& type : padded.parameter_types) shared->arguments.push_back(type.dims);
  for (const hlo::Type& type : padded.output_types) shared->outputs.push_back(type.dims);
  for (const auto& donation : donations)
    if (padded.parameter_types[donation.parameter] == padded.output_types[donation.output])
      shared->donations.push_back(donation);
  // The parameters that nothing needs any more are kept: the arguments stay those of the original.
  const hlo::Closed closed =
      padded.program->close(padded.outputs, shared->donations, /*text=*/false, /*all_parameters=*/true);
  note.why = "sizes up to " + std::to_string(bound);
  shared->executable = program_cache().get(
      closed.hash, note, [&] { return padded.program->extent(padded.outputs); },
      [&] { return padded.program->close(padded.outputs, shared->donations, true, true).text; });
  return known = std::move(shared);
}

}  // namespace tpu::runtime
