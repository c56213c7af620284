#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "study/state/state_io.hpp"
#include "study/state/sums.hpp"

namespace attnctl {

/// Sentences are divided into 64 groups: each run of eight consecutive sequences of a block is assigned to a
/// random group. Groups below 32 belong to even blocks, the others to odd blocks. A confidence interval needs
/// only the sums of each group, so the state does not grow with the corpus.
constexpr std::size_t kGroups = 64;
[[nodiscard]] std::size_t group_of(std::uint64_t block, std::size_t sequence);

/// The groups [first, last).
struct Half {
  std::size_t first = 0, last = kGroups;
};
constexpr Half kAllBlocks{0, kGroups};
constexpr Half kEvenBlocks{0, kGroups / 2};
constexpr Half kOddBlocks{kGroups / 2, kGroups};

/// Number of questions, and number of correct answers of each head and baseline, per group of sentences. The
/// counts are integers, so the order of merging does not matter.
class GroupScores {
 public:
  explicit GroupScores(std::size_t answers) : answers_(answers) {}

  /// Returns the counts of a group, [1 + answers]: asked, then right. The reference stays valid.
  [[nodiscard]] std::vector<std::uint64_t>& group(std::size_t number);
  [[nodiscard]] std::uint64_t asked(Half half = kAllBlocks) const { return total(half, 0); }
  [[nodiscard]] std::uint64_t right(std::size_t answer, Half half = kAllBlocks) const {
    return total(half, 1 + answer);
  }
  /// Returns nullopt if nothing was asked.
  [[nodiscard]] std::optional<double> accuracy(std::size_t answer, Half half = kAllBlocks) const;
  /// Returns the answer in [first, first + count) that is most often right in even blocks; the first one on
  /// ties. Returns nullopt if nothing was asked there.
  [[nodiscard]] std::optional<std::size_t> best(std::size_t first, std::size_t count) const;
  [[nodiscard]] const std::map<std::size_t, std::vector<std::uint64_t>>& groups() const { return groups_; }
  /// Adds the indices of the groups that have sentences.
  void add_occupied(std::set<std::size_t>& groups) const;

  void merge(const GroupScores& other);
  void save(StateWriter& out) const { save_state(out, groups_); }
  void load(StateReader& in);

 private:
  [[nodiscard]] std::uint64_t total(Half half, std::size_t column) const;

  std::size_t answers_;
  std::map<std::size_t, std::vector<std::uint64_t>> groups_;
};

/// Bootstrap over groups (Efron 1979). Draws the groups with replacement kDraws times, as many groups
/// per draw as have sentences. The interval is the middle 95 % of the draws.
class Bootstrap {
 public:
  /// `occupied` has the indices of the groups that have sentences.
  Bootstrap(std::uint64_t seed, const std::set<std::size_t>& occupied);

  /// Returns the interval of the share of right answers, minus the share of the answer `less` if it is given.
  /// Returns nullopt if fewer than kFewest groups have questions.
  [[nodiscard]] std::optional<ConfidenceInterval> interval(
      const GroupScores& scores, std::size_t answer, Half half = kAllBlocks,
      std::optional<std::size_t> less = std::nullopt) const;
  /// Returns the interval of each of the answers [first, first + count), over all blocks.
  [[nodiscard]] std::vector<std::optional<ConfidenceInterval>> intervals(const GroupScores& scores,
                                                                         std::size_t first,
                                                                         std::size_t count) const;

  static constexpr std::size_t kDraws = 1000;
  static constexpr std::size_t kFewest = 5;

 private:
  using Draws = OwnedMatrix<double>;  // [kGroups, kDraws]: number of times that a draw contains a group
  [[nodiscard]] static Draws draw(std::uint64_t seed, const std::set<std::size_t>& occupied, Half half);
  Draws all_, odd_;
};

}  // namespace attnctl
