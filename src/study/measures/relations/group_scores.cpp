#include "study/measures/relations/group_scores.hpp"

#include <algorithm>
#include <functional>
#include <span>

#include "base/random.hpp"
#include "linalg/gemm.hpp"

namespace attnctl {
namespace {

/// Returns the value of a rank (from 1) in the order `before`. Fast if the rank is small compared to the
/// number of values.
template <typename Before>
double ranked(std::span<const double> values, std::size_t rank, const Before& before) {
  std::vector<double> first;  // sorted; after the start, few values are inserted
  first.reserve(rank + 1);
  for (const double value : values) {
    if (first.size() == rank && !before(value, first.back())) continue;
    // Counting is faster than a binary search, whose branches would be unpredictable.
    const auto place = std::ranges::count_if(first, [&](double each) { return !before(value, each); });
    first.insert(first.begin() + place, value);
    if (first.size() > rank) first.pop_back();
  }
  return first.back();
}

/// Returns the middle 95 % of right / asked over the draws with asked > 0.
std::optional<ConfidenceInterval> middle(std::span<const double> asked, std::span<const double> right) {
  std::vector<double> shares(asked.size());
  std::size_t draws = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    shares[draws] = right[i] / asked[i];
    draws += asked[i] > 0 ? 1 : 0;
  }
  if (draws == 0) return std::nullopt;
  shares.resize(draws);
  const std::size_t rank = shares.size() / 40 + 1;  // leaves out 2.5 % on each side
  return ConfidenceInterval{ranked(shares, rank, std::ranges::less()),
                            ranked(shares, rank, std::ranges::greater())};
}

/// Returns the interval of each answer. counts: [1 + answers, kGroups], asked, then right. draws: [kGroups,
/// kDraws].
std::vector<std::optional<ConfidenceInterval>> intervals_of(const OwnedMatrix<double>& counts,
                                                            const OwnedMatrix<double>& draws) {
  std::vector<std::optional<ConfidenceInterval>> intervals(counts.rows() - 1);
  const auto asked = counts.view().row(0);
  const auto groups = std::ranges::count_if(asked, [](double count) { return count > 0; });
  if (static_cast<std::size_t>(groups) < Bootstrap::kFewest) return intervals;
  OwnedMatrix<double> sums(counts.rows(), draws.cols());  // sums of integers, therefore exact
  gemm_nn(counts.view(), draws.view(), sums.view());
  for (std::size_t i = 0; i < intervals.size(); ++i)
    intervals[i] = middle(sums.view().row(0), sums.view().row(1 + i));
  return intervals;
}

}  // namespace

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

void GroupScores::load(StateReader& in) {
  groups_.clear();
  for (std::size_t left = in.count(); left > 0; --left) {
    const std::uint64_t number = in.number();
    if (number >= kGroups || groups_.contains(number)) in.damaged("the groups of sentences are wrong");
    for (std::uint64_t& count : group(number)) count = in.number();
  }
}

Bootstrap::Bootstrap(std::uint64_t seed, const std::set<std::size_t>& occupied)
    : all_(draw(seed, occupied, kAllBlocks)), odd_(draw(seed, occupied, kOddBlocks)) {}

Bootstrap::Draws Bootstrap::draw(std::uint64_t seed, const std::set<std::size_t>& occupied, Half half) {
  std::vector<std::size_t> groups;
  for (const std::size_t group : occupied) {
    if (group >= half.first && group < half.last) groups.push_back(group);
  }
  Draws draws(kGroups, kDraws);
  for (std::size_t i = 0; i < kDraws; ++i) {
    Random random(seed, i);
    for (std::size_t n = 0; n < groups.size(); ++n) draws(groups[random.next() % groups.size()], i) += 1;
  }
  return draws;
}

std::optional<ConfidenceInterval> Bootstrap::interval(const GroupScores& scores, std::size_t answer,
                                                      Half half, std::optional<std::size_t> less) const {
  OwnedMatrix<double> counts(2, kGroups);
  for (const auto& [number, of_group] : scores.groups()) {
    if (number < half.first || number >= half.last) continue;
    counts(0, number) = static_cast<double>(of_group[0]);
    counts(1, number) = static_cast<double>(of_group[1 + answer]);
    if (less) counts(1, number) -= static_cast<double>(of_group[1 + *less]);
  }
  return intervals_of(counts, half.first == 0 ? all_ : odd_).front();
}

std::vector<std::optional<ConfidenceInterval>> Bootstrap::intervals(const GroupScores& scores,
                                                                    std::size_t first,
                                                                    std::size_t count) const {
  OwnedMatrix<double> counts(1 + count, kGroups);
  for (const auto& [number, of_group] : scores.groups()) {
    counts(0, number) = static_cast<double>(of_group[0]);
    for (std::size_t i = 0; i < count; ++i)
      counts(1 + i, number) = static_cast<double>(of_group[1 + first + i]);
  }
  return intervals_of(counts, all_);
}

}  // namespace attnctl
