#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "study/state/ratio_sums.hpp"
#include "study/state/state_io.hpp"

namespace attnctl {

/// Sentences are put into 64 groups, runs of eight consecutive ones of a block together and runs at random:
/// the groups below 32 are of even blocks, the others of odd ones. What is known of each group is all that an
/// interval needs, and does not grow with the corpus.
constexpr std::size_t kGroups = 64;
[[nodiscard]] std::size_t group_of(std::uint64_t block, std::size_t sequence);

/// Groups [first, last).
struct Half {
  std::size_t first = 0, last = kGroups;
};
constexpr Half kAllBlocks{0, kGroups};
constexpr Half kEvenBlocks{0, kGroups / 2};
constexpr Half kOddBlocks{kGroups / 2, kGroups};

/// How often something was asked, and how often each of several answers (heads, baselines) was right, by
/// group of sentences. Integers: any order of merging gives the same.
class GroupScores {
 public:
  explicit GroupScores(std::size_t answers) : answers_(answers) {}

  /// [1 + answers]: asked, then right; stays where it is.
  [[nodiscard]] std::vector<std::uint64_t>& group(std::size_t number);
  [[nodiscard]] std::uint64_t asked(Half half = kAllBlocks) const { return total(half, 0); }
  [[nodiscard]] std::uint64_t right(std::size_t answer, Half half = kAllBlocks) const {
    return total(half, 1 + answer);
  }
  /// nullopt where nothing was asked.
  [[nodiscard]] std::optional<double> accuracy(std::size_t answer, Half half = kAllBlocks) const;
  /// Of the answers [first, first + count) the one that is most often right in even blocks, the first of
  /// equal ones; nullopt where nothing was asked there.
  [[nodiscard]] std::optional<std::size_t> best(std::size_t first, std::size_t count) const;
  [[nodiscard]] const std::map<std::size_t, std::vector<std::uint64_t>>& groups() const { return groups_; }
  /// Adds the numbers of the groups that have sentences.
  void add_occupied(std::set<std::size_t>& groups) const;

  void merge(const GroupScores& other);
  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  [[nodiscard]] std::uint64_t total(Half half, std::size_t column) const;

  std::size_t answers_;
  std::map<std::size_t, std::vector<std::uint64_t>> groups_;
};

/// Bootstrap over groups (Efron 1979): a thousand times as many groups as there are are drawn with
/// replacement, and the interval holds the middle 95 % of what comes out.
class Bootstrap {
 public:
  /// `occupied`: groups that have sentences at all.
  Bootstrap(std::uint64_t seed, const std::set<std::size_t>& occupied);

  /// Of the share of right answers, less that of `less`; nullopt where fewer than kFewest groups were asked.
  [[nodiscard]] std::optional<ConfidenceInterval> interval(
      const GroupScores& scores, std::size_t answer, Half half = kAllBlocks,
      std::optional<std::size_t> less = std::nullopt) const;
  /// The same of each of the answers [first, first + count), in all blocks.
  [[nodiscard]] std::vector<std::optional<ConfidenceInterval>> intervals(const GroupScores& scores,
                                                                         std::size_t first,
                                                                         std::size_t count) const;

  static constexpr std::size_t kDraws = 1000;
  static constexpr std::size_t kFewest = 5;

 private:
  using Draws = OwnedMatrix<double>;  // [kGroups, kDraws], how often a group was drawn
  [[nodiscard]] static Draws draw(std::uint64_t seed, const std::set<std::size_t>& occupied, Half half);
  Draws all_, odd_;
};

}  // namespace attnctl
