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
  std::uint64_t words_without_piece = 0;  // the tokenizer dropped all of their characters
  std::uint64_t pairs_left_out = 0;       // of a word and its head that no sequence has both of
};

/// Scores by relation. The answers of a relation: each head from the dependent, each head from the head word,
/// then offsets -5..-1, 1..5 from the dependent to its head.
using RelationScores = std::map<std::string, GroupScores>;

/// What scores come to.
class SyntaxResults {
 public:
  static constexpr std::int64_t kFarthest = 5;
  static constexpr std::size_t kOffsets = 10;
  /// Answers of trees, behind the heads.
  enum Tree : std::size_t { kCombined, kAdjacent, kTreeBaselines };

  /// The place of an offset among the answers that are offsets; nullopt for others.
  [[nodiscard]] static std::optional<std::size_t> offset_answer(std::int64_t offset);

  /// Everything is borrowed.
  SyntaxResults(const StudyShape& shape, const RelationScores& relations, const GroupScores& trees,
                const SyntaxCounts& counts);
  /// The scores of the same heads where tokens were in random order; borrowed.
  void compare_with(const RelationScores& relations, const GroupScores& trees) {
    shuffled_relations_ = &relations;
    shuffled_trees_ = &trees;
  }
  void add_to(StudyResults& results) const;

 private:
  /// A relation in one direction.
  struct Question {
    const std::string* relation = nullptr;
    const GroupScores* scores = nullptr;
    bool to_head = true;
    std::size_t first = 0;             // answer of the first head
    std::optional<std::size_t> best;   // answer
    std::size_t baseline = 0;          // answer
    std::int64_t baseline_offset = 0;  // from the row's word to the wanted one
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

/// How well heads' patterns over words agree with the dependencies of a treebank.
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
  /// Places of a word and its head, and where its relation is counted.
  struct Pair {
    std::size_t dependent = 0, head = 0;
    std::vector<std::uint64_t>* counts = nullptr;
  };
  /// What is asked of one sequence.
  struct Plan {
    std::vector<Pair> pairs;
    std::vector<std::size_t> nodes;               // of the tree: places
    std::vector<std::size_t> gold;                // [nodes], the node of its head; kNone: none
    std::vector<std::uint64_t>* trees = nullptr;  // null: no edge
    std::vector<double> together;                 // [nodes, nodes], edges of all heads
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
