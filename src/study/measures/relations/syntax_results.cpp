#include <algorithm>
#include <set>
#include <utility>

#include "study/measures/relations/syntax.hpp"

namespace attnctl {
namespace {

std::set<std::size_t> occupied_groups(const RelationScores& relations) {
  std::set<std::size_t> groups;
  for (const auto& [name, scores] : relations) scores.add_occupied(groups);
  return groups;
}

}  // namespace

std::optional<std::size_t> SyntaxResults::offset_answer(std::int64_t offset) {
  if (offset == 0 || offset < -kFarthest || offset > kFarthest) return std::nullopt;
  return static_cast<std::size_t>(offset + kFarthest - (offset > 0 ? 1 : 0));
}

SyntaxResults::SyntaxResults(const StudyShape& shape, const RelationScores& relations,
                             const GroupScores& trees, const SyntaxCounts& counts)
    : shape_(shape),
      relations_(relations),
      trees_(trees),
      counts_(counts),
      bootstrap_(shape.seed, occupied_groups(relations)) {}

SyntaxResults::Question SyntaxResults::question(const std::string& relation, const GroupScores& scores,
                                                bool to_head) const {
  const std::size_t heads = shape_.heads.size();
  Question question;
  question.relation = &relation;
  question.scores = &scores;
  question.to_head = to_head;
  question.first = to_head ? 0 : heads;
  question.best = scores.best(question.first, heads);
  std::optional<std::uint64_t> most;
  // Ties go to the smaller distance, then to the negative offset.
  for (const std::int64_t distance : {1, 2, 3, 4, 5}) {
    for (const std::int64_t offset : {-distance, distance}) {
      const std::size_t answer = 2 * heads + *offset_answer(to_head ? offset : -offset);
      const std::uint64_t right = scores.right(answer);
      if (most && right <= *most) continue;
      most = right;
      question.baseline = answer;
      question.baseline_offset = offset;
    }
  }
  return question;
}

std::vector<SyntaxResults::Question> SyntaxResults::questions() const {
  std::vector<Question> questions;
  for (const auto& [name, scores] : relations_) {
    for (const bool to_head : {true, false}) questions.push_back(question(name, scores, to_head));
  }
  return questions;
}

/// Returns the accuracy on shuffled tokens, in odd blocks.
std::optional<double> SyntaxResults::shuffled(const Question& question, std::size_t answer) const {
  if (shuffled_relations_ == nullptr) return std::nullopt;
  const auto found = shuffled_relations_->find(*question.relation);
  return found == shuffled_relations_->end() ? std::nullopt : found->second.accuracy(answer, kOddBlocks);
}

ResultRow SyntaxResults::row(const Question& question, std::size_t head,
                             const std::optional<ConfidenceInterval>& interval) const {
  const GroupScores& scores = *question.scores;
  const std::size_t answer = question.first + head;
  const bool best = question.best == answer;
  std::optional<ConfidenceInterval> gain;
  if (best) gain = bootstrap_.interval(scores, answer, kOddBlocks, question.baseline);
  return {{"relation", Cell(*question.relation)},
          {"direction", Cell(std::string(question.to_head ? "to_head" : "to_dependent"))},
          {"head", RowHead{head}},
          {"hits", count_cell(scores.right(answer))},
          {"count", count_cell(scores.asked())},
          {"accuracy", real_cell(scores.accuracy(answer))},
          {"interval", interval},
          {"baseline", real_cell(scores.accuracy(question.baseline))},
          {"baseline_offset", Cell(question.baseline_offset)},
          {"best", Cell(best)},
          {"count_held_out", count_cell(scores.asked(kOddBlocks))},
          {"accuracy_held_out", real_cell(scores.accuracy(answer, kOddBlocks))},
          {"baseline_held_out", real_cell(scores.accuracy(question.baseline, kOddBlocks))},
          {"shuffled_held_out", real_cell(shuffled(question, answer))},
          {"gain_interval", gain}};
}

std::vector<ResultRow> SyntaxResults::tree_rows() const {
  std::vector<ResultRow> rows;
  const std::size_t heads = shape_.heads.size();
  const auto intervals = bootstrap_.intervals(trees_, 0, heads + kTreeBaselines);
  for (std::size_t answer = 0; answer < heads + kTreeBaselines; ++answer) {
    const bool head = answer < heads;
    const char* kind = head ? "head" : answer == heads + kCombined ? "combined" : "adjacent";
    std::optional<double> shuffled;
    if (shuffled_trees_ != nullptr) shuffled = shuffled_trees_->accuracy(answer, kOddBlocks);
    rows.push_back({{"kind", Cell(std::string(kind))},
                    {"head", RowHead{head ? std::optional(answer) : std::nullopt}},
                    {"hits", count_cell(trees_.right(answer))},
                    {"count", count_cell(trees_.asked())},
                    {"accuracy", real_cell(trees_.accuracy(answer))},
                    {"interval", intervals[answer]},
                    {"best", Cell(head && trees_.best(0, heads) == answer)},
                    {"count_held_out", count_cell(trees_.asked(kOddBlocks))},
                    {"accuracy_held_out", real_cell(trees_.accuracy(answer, kOddBlocks))},
                    {"shuffled_held_out", real_cell(shuffled)}});
  }
  return rows;
}

/// Returns a table of the relations, most frequent first. Each row has the direction with the larger gain
/// over its baseline.
TextTable SyntaxResults::relations_text(const std::vector<Question>& questions) const {
  constexpr std::size_t most = 20;
  const auto gain = [](const Question& question) {
    return question.scores->accuracy(*question.best, kOddBlocks).value_or(0) -
           question.scores->accuracy(question.baseline, kOddBlocks).value_or(0);
  };
  std::vector<const Question*> shown;
  for (std::size_t i = 0; i < questions.size(); i += 2) {
    const Question& to_head = questions[i];
    if (!to_head.best) continue;
    shown.push_back(gain(questions[i + 1]) > gain(to_head) ? &questions[i + 1] : &to_head);
  }
  std::ranges::stable_sort(shown, std::ranges::greater(),
                           [](const Question* question) { return question->scores->asked(); });
  shown.resize(std::min(shown.size(), most));
  std::vector<std::vector<Cell>> rows;
  for (const Question* const each : shown) {
    const GroupScores& scores = *each->scores;
    rows.push_back({*each->relation, std::string(each->to_head ? "to head" : "to dependent"),
                    count_cell(scores.asked(kOddBlocks)), shape_.heads[*each->best - each->first].name,
                    score_text(scores.accuracy(*each->best, kOddBlocks),
                               bootstrap_.interval(scores, *each->best, kOddBlocks)),
                    score_text(scores.accuracy(each->baseline, kOddBlocks)), each->baseline_offset});
  }
  return {
      "Relations: the best head of even blocks, in odd ones",
      make_table("relations", {"relation", "direction", "count", "head", "accuracy", "baseline", "offset"},
                 std::move(rows))};
}

TextTable SyntaxResults::trees_text() const {
  const std::size_t heads = shape_.heads.size();
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](const std::string& name, std::size_t answer) {
    rows.push_back(
        {name, count_cell(trees_.asked(kOddBlocks)),
         score_text(trees_.accuracy(answer, kOddBlocks), bootstrap_.interval(trees_, answer, kOddBlocks))});
  };
  if (const auto best = trees_.best(0, heads)) add("head " + shape_.heads[*best].name, *best);
  add("all heads", heads + kCombined);
  add("adjacent words", heads + kAdjacent);
  return {"Trees: edges of the annotation, in odd blocks",
          make_table("trees", {"tree of", "edges", "accuracy"}, std::move(rows))};
}

Record SyntaxResults::summary() const {
  Record record;
  record.set("sentences", counts_.sentences)
      .set("words", counts_.words)
      .set("words_without_piece", counts_.words_without_piece)
      .set("pairs_left_out", counts_.pairs_left_out);
  return record;
}

void SyntaxResults::add_to(StudyResults& results) const {
  const std::vector<Question> asked = questions();
  std::vector<ResultRow> rows;
  for (const Question& each : asked) {
    const auto intervals = bootstrap_.intervals(*each.scores, each.first, shape_.heads.size());
    for (std::size_t head = 0; head < shape_.heads.size(); ++head)
      rows.push_back(row(each, head, intervals[head]));
  }
  add_rows(results, shape_, "relations", "relation", std::move(rows));
  add_rows(results, shape_, "trees", "tree", tree_rows());
  results.text.push_back(relations_text(asked));
  results.text.push_back(trees_text());
  results.summary.set("syntax", summary());
  for (const Question& each : asked) {
    if (!each.best) continue;
    const GroupScores& scores = *each.scores;
    results.evidence.push_back({.head = *each.best - each.first,
                                .role = "syntactic",
                                .detail = *each.relation + (each.to_head ? " to_head" : " to_dependent"),
                                .score = scores.accuracy(*each.best, kOddBlocks),
                                .null = scores.accuracy(each.baseline, kOddBlocks),
                                .interval = bootstrap_.interval(scores, *each.best, kOddBlocks),
                                .count = scores.asked(kOddBlocks),
                                .shuffled = shuffled(each, *each.best)});
  }
}

}  // namespace attnctl
