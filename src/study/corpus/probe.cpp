#include "study/corpus/probe.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/random.hpp"
#include "input/sequences.hpp"

namespace attnctl {
namespace {

/// Returns the ids that a probe sequence may contain: those of tokens that are not special.
std::vector<std::int64_t> ordinary_ids(const ProbeLimits& limits, const Vocabulary& vocabulary) {
  std::vector<std::int64_t> ids;
  const std::set<std::int64_t> begins(limits.prefix.begin(), limits.prefix.end());
  for (std::int64_t id = 0; id < static_cast<std::int64_t>(limits.ids); ++id) {
    if (vocabulary.is_special(id) || begins.contains(id)) continue;
    if (vocabulary.empty() || !vocabulary.token(id).value_or("").empty()) ids.push_back(id);
  }
  return ids;
}

/// Draws `count` distinct ids. `ids` must have at least 2 * count elements.
std::vector<std::int64_t> draw(std::span<const std::int64_t> ids, std::size_t count, Random& random) {
  std::vector<std::int64_t> drawn;
  std::set<std::int64_t> seen;
  while (drawn.size() < count) {
    const std::int64_t id = ids[random.next() % ids.size()];
    if (seen.insert(id).second) drawn.push_back(id);
  }
  return drawn;
}

ProbeSequence make(std::string name, const ProbeLimits& limits, std::span<const std::int64_t> first,
                   std::span<const std::int64_t> second) {
  ProbeSequence probe;
  probe.marks = {.first = limits.prefix.size(), .length = first.size(), .repeated = first[0] == second[0]};
  probe.sequence.id = std::move(name);
  std::vector<std::int64_t>& ids = probe.sequence.ids;
  ids = limits.prefix;
  ids.insert(ids.end(), first.begin(), first.end());
  ids.insert(ids.end(), second.begin(), second.end());
  return probe;
}

}  // namespace

std::vector<ProbeSequence> probe_sequences(const ProbePlan& plan, const ProbeLimits& limits,
                                           const Vocabulary& vocabulary) {
  constexpr std::size_t shortest = 4;
  if (plan.sequences == 0 || limits.positions <= limits.prefix.size()) return {};
  const std::vector<std::int64_t> ids = ordinary_ids(limits, vocabulary);
  const std::size_t length =
      std::min({plan.length, ids.size() / 4, (limits.positions - limits.prefix.size()) / 2});
  if (length < shortest) return {};
  std::vector<ProbeSequence> probes;
  for (std::size_t i = 0; i < plan.sequences; ++i) {
    Random random(plan.seed, i);
    const std::vector<std::int64_t> drawn = draw(ids, 2 * length, random);
    const auto copy = std::span(drawn).first(length);
    const auto other = std::span(drawn).last(length);
    probes.push_back(make("probe " + std::to_string(i), limits, copy, copy));
    probes.push_back(make("control " + std::to_string(i), limits, other, copy));
  }
  Batch batch;
  for (ProbeSequence& probe : probes) batch.sequences.push_back(std::move(probe.sequence));
  finish_batch(batch, vocabulary);
  for (std::size_t i = 0; i < probes.size(); ++i) probes[i].sequence = std::move(batch.sequences[i]);
  return probes;
}

}  // namespace attnctl
