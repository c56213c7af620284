#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "study/measure.hpp"
#include "study/measures/relations/group_scores.hpp"
#include "study/measures/relations/spanning_tree.hpp"
#include "study/measures/relations/word_patterns.hpp"
#include "study/measures/result_rows.hpp"

namespace attnctl {

struct SyntaxCounts {
  std::uint64_t sentences = 0;
  std::uint64_t words = 0;
  std::uint64_t words_without_piece = 0;  // all of their characters were dropped by the tokenizer
  std::uint64_t pairs_left_out = 0;       // a word and its head that no window contains together
};

/// Scores by relation. The answers are: each head, from the dependent to the head word; each head, from the
/// head word to the dependent; then the offsets -5..-1, 1..5 from the dependent to the head word.
using RelationScores = std::map<std::string, GroupScores>;

/// Results of the syntax measure, from its scores.
class SyntaxResults {
 public:
  static constexpr std::int64_t kFarthest = 5;
  static constexpr std::size_t kOffsets = 10;
  /// Baselines of the trees: the answers after those of the heads.
  enum Tree : std::size_t { kCombined, kAdjacent, kTreeBaselines };

  /// Returns the index of an offset among the offset answers, or nullopt for other offsets.
  [[nodiscard]] static std::optional<std::size_t> offset_answer(std::int64_t offset);

  /// All arguments are borrowed.
  SyntaxResults(const StudyShape& shape, const RelationScores& relations, const GroupScores& trees,
                const SyntaxCounts& counts);
  /// Sets the scores of the same heads on shuffled tokens. Both arguments are borrowed.
  void compare_with(const RelationScores& relations, const GroupScores& trees) {
    shuffled_relations_ = &relations;
    shuffled_trees_ = &trees;
  }
  void add_to(StudyResults& results) const;

 private:
  /// One relation in one direction.
  struct Question {
    const std::string* relation = nullptr;
    const GroupScores* scores = nullptr;
    bool to_head = true;
    std::size_t first = 0;             // answer of head 0
    std::optional<std::size_t> best;   // best head, as an answer
    std::size_t baseline = 0;          // best offset, as an answer
    std::int64_t baseline_offset = 0;  // from the word of the row to the target word
  };
  [[nodiscard]] std::vector<Question> questions() const;
  [[nodiscard]] Question question(const std::string& relation, const GroupScores& scores, bool to_head) const;
  [[nodiscard]] std::optional<double> shuffled(const Question& question, std::size_t answer) const;
  [[nodiscard]] ResultRow row(const Question& question, std::size_t head,
                              const std::optional<ConfidenceInterval>& interval) const;
  [[nodiscard]] std::vector<ResultRow> tree_rows() const;
  [[nodiscard]] TextTable relations_text(const std::vector<Question>& questions) const;
  [[nodiscard]] TextTable trees_text() const;
  [[nodiscard]] Record summary() const;

  const StudyShape& shape_;
  const RelationScores& relations_;
  const GroupScores& trees_;
  const SyntaxCounts& counts_;
  const RelationScores* shuffled_relations_ = nullptr;
  const GroupScores* shuffled_trees_ = nullptr;
  Bootstrap bootstrap_;
};

/// Measures how well the heads' patterns over words match the dependencies of a treebank.
class SyntaxMeasure final : public Measure {
 public:
  explicit SyntaxMeasure(const StudyShape& shape);

  void begin(const StudyBlock& block) override;
  void panel(const StudyPanel& panel) override;
  void end() override;
  void merge(const Measure& other) override;
  void save(StateWriter& out) const override;
  void load(StateReader& in) override;
  void finish(StudyResults& results) const override;

 private:
  /// Positions of a word and its head word, and the counts of their relation.
  struct Pair {
    std::size_t dependent = 0, head = 0;
    std::vector<std::uint64_t>* counts = nullptr;
  };
  /// The questions of one sequence.
  struct Plan {
    std::vector<Pair> pairs;
    std::vector<std::size_t> nodes;               // nodes of the tree: word positions
    std::vector<std::size_t> gold;                // [nodes], node of the head word; kNone: no head word
    std::vector<std::uint64_t>* trees = nullptr;  // null if there is no edge
    std::vector<double> together;                 // [nodes, nodes], edge weights summed over all heads
  };
  [[nodiscard]] GroupScores& relation(std::string_view name);
  void plan(const ConlluSentence& sentence, const WordPieces& pieces, std::size_t group, Plan& plan);
  [[nodiscard]] std::uint64_t hits(const Plan& plan, std::span<const double> weights);

  const StudyShape& shape_;
  SyntaxCounts counts_;
  RelationScores relations_;
  GroupScores trees_;
  WordPatterns patterns_;
  std::vector<Plan> plans_;  // [sequences]
  std::vector<std::size_t> largest_;
  std::vector<double> edges_;
  MaximumSpanningTree tree_;
};

}  // namespace attnctl
