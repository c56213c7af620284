#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "study/measure.hpp"
#include "study/state/state_io.hpp"
#include "study/state/sums.hpp"

// What the measures `syntax` and `coreference` share: patterns over words, and scores of their answers.
namespace attnctl {

/// The words of one sequence that have at least one token in it, in order. A `place` is an index into these
/// words.
struct WordPieces {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::vector<std::size_t> words;              // [places], index in the annotation
  std::vector<std::size_t> place_of;           // [words of the annotation]; kNone: the word has no token
  std::vector<std::size_t> of_token;           // [n], place of a token's first word; places() if it has none
  std::vector<Sequence::SharedToken> further;  // further words of tokens; `word` is a place

  WordPieces() = default;
  /// `words` is the number of words in the annotation.
  WordPieces(const Sequence& sequence, std::size_t words);
  [[nodiscard]] std::size_t places() const { return words.size(); }
};

/// Patterns over words instead of tokens (Clark et al. 2019), for each head in one block. Attention to a word
/// is the sum over its pieces; attention from a word is the mean over its pieces. A piece belongs to each
/// word with which it shares a character. Fully masked rows are left out of the mean.
class WordPatterns {
 public:
  /// A complete matrix of one head, [places, places]. A word without rows has zeros.
  struct Matrix {
    std::size_t places = 0;
    std::span<const double> weights;
    [[nodiscard]] std::span<const double> row(std::size_t place) const {
      // The next element is the weight on tokens without a word.
      return weights.subspan(place * (places + 1), places);
    }
  };

  /// Prepares the annotated sequences for which `wanted` returns true; calls it only for annotated sequences.
  void begin(const StudyBlock& block, const std::function<bool(std::size_t sequence)>& wanted);
  [[nodiscard]] const WordPieces& pieces(std::size_t sequence) const { return pieces_[sequence]; }
  /// Adds a panel. Returns the matrix if the panel completes it. The matrix is valid until the next call.
  [[nodiscard]] std::optional<Matrix> add(const StudyPanel& panel);

 private:
  struct Open {
    std::vector<double> weights;      // [places, places + 1]
    std::vector<std::uint32_t> rows;  // [places], number of pieces
  };
  static void add_row(const PatternRow& row, const WordPieces& pieces, Open& open);

  std::vector<WordPieces> pieces_;  // [sequences]
  std::vector<Open> open_;          // [heads]
  Open closed_;
};

/// Returns the place with the largest weight other than `self`, the first one on ties. Returns kNone if all
/// weights are 0.
[[nodiscard]] std::size_t largest_other(std::span<const double> row, std::size_t self);

/// Maximum spanning tree (Prim 1957) of a complete graph with symmetric weights [n, n]. An instance reuses
/// its memory for further trees.
class MaximumSpanningTree {
 public:
  /// Returns the parent of each node [n]: the tree node to which it was joined. The entry of node 0, the
  /// root, is unused. The result is valid until the next call. On ties, the lower node is joined first.
  [[nodiscard]] std::span<const std::size_t> find(std::span<const double> weights, std::size_t n);

 private:
  std::vector<std::size_t> parent_;
  std::vector<double> reach_;      // [n], weight of the best edge to the tree
  std::vector<std::size_t> left_;  // nodes outside the tree, ascending
};

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

  /// Returns the interval of the share of right answers for each of the answers [first, first + count), minus
  /// the share of the answer `less` if it is given; nullopt if fewer than kFewest groups have questions.
  [[nodiscard]] std::vector<std::optional<ConfidenceInterval>> intervals(
      const GroupScores& scores, std::size_t first, std::size_t count, Half half = kAllBlocks,
      std::optional<std::size_t> less = std::nullopt) const;
  [[nodiscard]] std::optional<ConfidenceInterval> interval(
      const GroupScores& scores, std::size_t answer, Half half = kAllBlocks,
      std::optional<std::size_t> less = std::nullopt) const {
    return intervals(scores, answer, 1, half, less).front();
  }

  static constexpr std::size_t kDraws = 1000;
  static constexpr std::size_t kFewest = 5;

 private:
  using Draws = OwnedMatrix<double>;  // [kGroups, kDraws]: number of times that a draw contains a group
  [[nodiscard]] static Draws draw(std::uint64_t seed, const std::set<std::size_t>& occupied, Half half);
  Draws all_, odd_;
};

}  // namespace attnctl
