#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/matrix_view.hpp"
#include "study/measure.hpp"
#include "study/state/state_io.hpp"
#include "study/state/sums.hpp"

// Patterns over words, counts of correct answers, and confidence intervals of the shares of correct answers,
// for the measures `syntax` and `coreference`.
namespace attnctl::study {

/// The words of one sequence that have a token in it, in order. A `place` is an index in `words`.
struct WordPieces {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::vector<std::size_t> words;     // ascending indices of the words in the annotation
  std::vector<std::size_t> place_of;  // [words of the annotation], place; kNone if the word has no token
  std::vector<std::size_t> of_token;  // [n], place of each token's first word; words.size(): no word
  std::vector<input::Sequence::SharedToken> further;  // the other words of tokens; `word` is a place

  WordPieces() = default;
  WordPieces(const input::Sequence& sequence, std::size_t words_of_annotation);
  [[nodiscard]] std::size_t places() const { return words.size(); }
};

/// Patterns over words instead of tokens (Clark et al. 2019), for each head in one block. Attention to a word
/// is the sum over the word's tokens. Attention from a word is the mean over the word's tokens. A token
/// belongs to each word with which it shares a character. Rows that are fully masked or not finite are left
/// out of the mean.
class WordPatterns {
 public:
  /// Prepares the annotated sequences for which `wanted` returns true.
  void begin(const StudyBlock& block, const std::function<bool(std::size_t sequence)>& wanted);
  [[nodiscard]] const WordPieces& pieces(std::size_t sequence) const { return pieces_[sequence]; }
  /// Adds a panel. Returns the pattern of the head and sequence over words, [places, places], valid until the
  /// next call, if this panel is its last one. The row of a word is 0 if all rows of its tokens are left out.
  /// Returns an empty view for other panels, and if the sequence was not prepared or has no words.
  [[nodiscard]] MatrixView<const double> add(const StudyPanel& panel);

 private:
  struct OpenPattern {
    std::vector<double> weights;      // [places, places + 1]; the last column is for tokens without a word
    std::vector<std::uint32_t> rows;  // [places], number of rows added for each word
  };

  std::vector<WordPieces> pieces_;  // [sequences]
  std::vector<OpenPattern> open_;   // [heads]
  std::vector<double> closed_;      // OpenPattern::weights of the last complete pattern
};

/// Returns the first index of the largest weight in `row`, without the weight at `self`. Returns
/// WordPieces::kNone if all other weights are 0.
[[nodiscard]] std::size_t largest_other(std::span<const double> row, std::size_t self);

/// Finds maximum spanning trees (Prim 1957) of complete graphs with symmetric weights [n, n].
class MaximumSpanningTree {
 public:
  /// Returns the parent of each node in the tree, [n]. Node 0 is the root; its entry is unused. The result is
  /// valid until the next call. In each step, the node outside the tree that has the heaviest edge to the
  /// tree joins it; of several such nodes, the one with the lowest index. If a node has several equally heavy
  /// edges to the tree, its parent is the node that joined first.
  [[nodiscard]] std::span<const std::size_t> find(std::span<const double> weights, std::size_t n);

 private:
  std::vector<std::size_t> parent_;
  std::vector<double> reach_;      // [n], largest weight of an edge from each node to the tree
  std::vector<std::size_t> left_;  // nodes outside the tree, ascending
};

/// Sentences are divided into 64 groups: each run of eight consecutive sequences of a block (or fewer at
/// the end of the block) is assigned to a random group. Groups 0 to 31 are for sequences of even blocks,
/// groups 32 to 63 for sequences of odd blocks. The groups are the clusters of confidence intervals, which
/// need only the sums of each group, so the state need not keep the sums of each sentence.
constexpr std::size_t kGroups = 64;
[[nodiscard]] std::size_t group_of(std::uint64_t block, std::size_t sequence);

/// A range of groups: [first, last).
struct Half {
  std::size_t first = 0, last = kGroups;
};
constexpr Half kAllBlocks{0, kGroups};
constexpr Half kEvenBlocks{0, kGroups / 2};
constexpr Half kOddBlocks{kGroups / 2, kGroups};

/// A baseline of GroupScores, whose correct answers count 1 / scale.
struct ScoredBaseline {
  std::size_t answer = 0;
  double scale = 1;
};

/// For each group of sentences, the number of questions and the number of correct answers of each head and
/// baseline. A question is a word pair, an edge or a mention. The measure decides the order of the heads and
/// baselines; `answer` is an index in this order.
class GroupScores {
 public:
  /// `answers` is the number of heads and baselines. merge() sets it to the number of `other`.
  explicit GroupScores(std::size_t answers = 0) : answers_(answers) {}

  /// Returns the counts of a group, [1 + answers]: first the number of questions, then the number of correct
  /// answers of each head and baseline. The reference stays valid.
  [[nodiscard]] std::vector<std::uint64_t>& group(std::size_t number) {
    std::vector<std::uint64_t>& counts = groups_[number];
    counts.resize(1 + answers_);
    return counts;
  }
  [[nodiscard]] std::uint64_t asked(Half half = kAllBlocks) const { return total(half, 0); }
  [[nodiscard]] std::uint64_t right(std::size_t answer, Half half = kAllBlocks) const {
    return total(half, 1 + answer);
  }
  [[nodiscard]] std::optional<double> accuracy(std::size_t answer, Half half = kAllBlocks) const {
    const std::uint64_t count = asked(half);
    if (count == 0) return std::nullopt;
    return static_cast<double>(right(answer, half)) / static_cast<double>(count);
  }
  /// Returns the accuracy of an answer, or its accuracy minus that of the baseline `less`. Returns nullopt if
  /// fewer than two groups have questions.
  [[nodiscard]] std::optional<ShareEstimate> estimate(std::size_t answer, Half half = kAllBlocks,
                                                      std::optional<ScoredBaseline> less = {}) const;
  /// Returns the first index in [first, first + count) with the most correct answers in even blocks, or
  /// nullopt if even blocks have no questions or if `count` is 0.
  [[nodiscard]] std::optional<std::size_t> best(std::size_t first, std::size_t count) const;
  [[nodiscard]] bool all_even() const { return asked(kEvenBlocks) > 0 && asked(kOddBlocks) == 0; }

  void merge(const GroupScores& other) {
    answers_ = other.answers_;
    for (const auto& [number, counts] : other.groups_) merge_state(group(number), counts);
  }
  void save(StateWriter& out) const { save_state(out, groups_); }
  void load(StateReader& in) {
    groups_.clear();
    for (std::size_t left = in.count(); left > 0; --left) {
      const std::uint64_t number = in.number();
      if (number >= kGroups || groups_.contains(number))
        in.damaged("the numbers of the groups of sentences are repeated or too large");
      for (std::uint64_t& count : group(number)) count = in.number();
    }
  }

 private:
  [[nodiscard]] std::uint64_t total(Half half, std::size_t column) const {
    std::uint64_t sum = 0;
    const auto last = groups_.lower_bound(half.last);
    for (auto group = groups_.lower_bound(half.first); group != last; ++group) sum += group->second[column];
    return sum;
  }

  std::size_t answers_;
  std::map<std::size_t, std::vector<std::uint64_t>> groups_;
};

/// Returns the evidence for a role from the answers of a head over odd blocks. The null is the accuracy of
/// the baseline.
[[nodiscard]] RoleEvidence held_out_evidence(std::size_t head, std::string_view role, std::string detail,
                                             const GroupScores& scores, std::size_t answer,
                                             ScoredBaseline baseline);

}  // namespace attnctl::study
