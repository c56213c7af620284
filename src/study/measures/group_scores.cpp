#include "study/measures/group_scores.hpp"

#include "attnctl/base/random.hpp"

#include <algorithm>
#include <cmath>

namespace attnctl {

std::size_t group_of(std::uint64_t block, std::size_t sequence) {
  constexpr std::size_t run = 8;
  const std::uint64_t drawn = Random(block, sequence / run).next() % (kGroups / 2);
  return static_cast<std::size_t>(drawn) + (block % 2 == 0 ? 0 : kGroups / 2);
}

std::vector<std::uint64_t>& GroupScores::group(std::size_t number) {
  std::vector<std::uint64_t>& counts = groups_[number];
  counts.resize(1 + answers_);
  return counts;
}

std::uint64_t GroupScores::total(Half half, std::size_t column) const {
  std::uint64_t sum = 0;
  for (const auto& [number, counts] : groups_) {
    if (number >= half.first && number < half.last) sum += counts[column];
  }
  return sum;
}

std::optional<double> GroupScores::accuracy(std::size_t answer, Half half) const {
  const std::uint64_t count = asked(half);
  if (count == 0) return std::nullopt;
  return static_cast<double>(right(answer, half)) / static_cast<double>(count);
}

std::optional<std::size_t> GroupScores::best(std::size_t first, std::size_t count) const {
  if (asked(kEvenBlocks) == 0 || count == 0) return std::nullopt;
  std::size_t best = first;
  std::uint64_t most = right(first, kEvenBlocks);
  for (std::size_t answer = first + 1; answer < first + count; ++answer) {
    const std::uint64_t hits = right(answer, kEvenBlocks);
    if (hits <= most) continue;
    most = hits;
    best = answer;
  }
  return best;
}

void GroupScores::add_occupied(std::set<std::size_t>& groups) const {
  for (const auto& [number, counts] : groups_) groups.insert(number);
}

void GroupScores::merge(const GroupScores& other) {
  for (const auto& [number, counts] : other.groups_) {
    std::vector<std::uint64_t>& sums = group(number);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += counts.at(i);
  }
}

void GroupScores::save(StateWriter& out) const {
  out.number(groups_.size());
  for (const auto& [number, counts] : groups_) {
    out.number(number);
    for (const std::uint64_t count : counts) out.number(count);
  }
}

void GroupScores::load(StateReader& in) {
  groups_.clear();
  for (std::size_t left = in.count(); left > 0; --left) {
    const std::uint64_t number = in.number();
    if (number >= kGroups || groups_.contains(number)) in.damaged("groups of sentences that cannot be");
    for (std::uint64_t& count : group(number)) count = in.number();
  }
}

Bootstrap::Bootstrap(std::uint64_t seed, const std::set<std::size_t>& occupied)
    : all_(draw(seed, occupied, kAllBlocks)), odd_(draw(seed, occupied, kOddBlocks)) {}

std::array<Bootstrap::Draws, kGroups> Bootstrap::draw(std::uint64_t seed,
                                                      const std::set<std::size_t>& occupied, Half half) {
  std::vector<std::size_t> groups;
  for (const std::size_t group : occupied) {
    if (group >= half.first && group < half.last) groups.push_back(group);
  }
  std::array<Draws, kGroups> draws;
  for (Draws& of_group : draws) of_group.assign(kDraws, 0);
  for (std::size_t i = 0; i < kDraws; ++i) {
    Random random(seed, i);
    for (std::size_t n = 0; n < groups.size(); ++n) draws[groups[random.next() % groups.size()]][i] += 1;
  }
  return draws;
}

std::optional<ConfidenceInterval> Bootstrap::interval(const GroupScores& scores, std::size_t answer,
                                                      Half half, std::optional<std::size_t> less) const {
  const std::array<Draws, kGroups>& draws = half.first == 0 ? all_ : odd_;
  std::vector<double> asked(kDraws), right(kDraws);
  std::size_t groups = 0;
  for (const auto& [number, counts] : scores.groups()) {
    if (number < half.first || number >= half.last || counts[0] == 0) continue;
    ++groups;
    const auto count = static_cast<double>(counts[0]);
    const double hits =
        static_cast<double>(counts[1 + answer]) - (less ? static_cast<double>(counts[1 + *less]) : 0.0);
    const double* const times = draws[number].data();
    for (std::size_t i = 0; i < kDraws; ++i) {
      asked[i] += times[i] * count;
      right[i] += times[i] * hits;
    }
  }
  if (groups < kFewest) return std::nullopt;
  std::vector<double> shares;
  for (std::size_t i = 0; i < kDraws; ++i) {
    if (asked[i] > 0) shares.push_back(right[i] / asked[i]);
  }
  if (shares.empty()) return std::nullopt;
  const std::size_t outside = shares.size() / 40;  // 2.5 % on either side
  const auto low = shares.begin() + static_cast<std::ptrdiff_t>(outside);
  const auto high = shares.end() - 1 - static_cast<std::ptrdiff_t>(outside);
  std::nth_element(shares.begin(), low, shares.end());
  const double lowest = *low;
  std::nth_element(low, high, shares.end());
  return ConfidenceInterval{lowest, *high};
}

}  // namespace attnctl
