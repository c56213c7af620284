#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "study/measure.hpp"
#include "study/measures/relations/group_scores.hpp"
#include "study/measures/relations/word_patterns.hpp"
#include "study/measures/result_rows.hpp"

namespace attnctl {

/// Measures how often a head attends from an anaphoric mention to an antecedent. A mention is anaphoric if
/// the head word of another mention of the same entity comes before its own head word. The candidates are the
/// head words of all earlier mentions; any antecedent counts as correct.
class CoreferenceMeasure final : public Measure {
 public:
  explicit CoreferenceMeasure(const StudyShape& shape);

  void begin(const StudyBlock& block) override;
  void panel(const StudyPanel& panel) override;
  void merge(const Measure& other) override;
  void save(StateWriter& out) const override;
  void load(StateReader& in) override;
  void finish(StudyResults& results) const override;

 private:
  /// Baselines: the answers after those of the heads.
  enum Baseline : std::size_t { kNearest, kSameString, kRandom, kBaselines };
  /// One anaphoric mention, its candidates, and the counts to which its answers are added.
  struct Question {
    std::size_t place = 0;
    std::vector<std::pair<std::size_t, bool>> candidates = {};  // position; true for an antecedent
    std::vector<std::vector<std::uint64_t>*> counts = {};
  };
  using Plan = std::vector<Question>;

  [[nodiscard]] static bool is_anaphoric(const ConlluSentence& sentence, std::size_t number);
  [[nodiscard]] bool ask(const ConlluSentence& sentence, std::size_t number, const WordPieces& pieces,
                         std::size_t group, Plan& plan);
  [[nodiscard]] Cell baseline(const GroupScores& scores, Baseline which, Half half = kAllBlocks) const;
  [[nodiscard]] std::optional<double> shuffled(std::size_t type, std::size_t head) const;
  [[nodiscard]] ResultRow row(std::size_t type, std::size_t head,
                              const std::optional<ConfidenceInterval>& interval) const;
  void add_evidence(StudyResults& results, const Bootstrap& bootstrap) const;
  [[nodiscard]] TextTable text(const Bootstrap& bootstrap) const;

  const StudyShape& shape_;
  std::vector<GroupScores> scores_;  // by type: all, pronoun, proper, nominal
  std::uint64_t mentions_ = 0;
  std::uint64_t left_out_ = 0;  // anaphoric mentions left out because a head word has no token
  WordPatterns patterns_;
  std::vector<Plan> plans_;  // [sequences]
};

}  // namespace attnctl
