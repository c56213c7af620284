#include "study/measures/relations/coreference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "study/measures/measures.hpp"

namespace attnctl {
namespace {

constexpr std::array kTypes = {"all", "pronoun", "proper", "nominal"};
/// Fixed-point scale of the random baseline, which is correct for a fraction of a mention.
constexpr std::uint64_t kParts = std::uint64_t{1} << 32;

constexpr std::array kMetrics = {
    Metric{"coreference_accuracy", "share", "[0, 1]", "nearest, same_string, random",
           "anaphoric mentions whose head word weighs the head of an antecedent most among the heads of "
           "mentions before it, over all anaphoric mentions",
           "Clark et al. 2019"},
};

/// Returns the word forms of a mention, with ASCII letters in lower case.
std::string string_of(const Mention& mention, const ConlluSentence& sentence) {
  std::string text;
  for (const std::size_t word : mention.words)
    text += (text.empty() ? "" : " ") + sentence.words[word].word.form;
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

CoreferenceMeasure::CoreferenceMeasure(const StudyShape& shape)
    : shape_(shape), scores_(kTypes.size(), GroupScores(shape.heads.size() + kBaselines)) {}

void CoreferenceMeasure::begin(const StudyBlock& block) {
  const CorpusBlock& corpus = block.corpus;
  patterns_.begin(block, [&](std::size_t i) { return !corpus.annotations[i]->mentions.empty(); });
  std::set<std::size_t> asked;  // mentions with a question in at least one window of the sentence
  for (std::size_t i = 0; i < corpus.annotations.size(); ++i) {
    plans_.emplace_back();
    const auto& annotation = corpus.annotations[i];
    if (patterns_.pieces(i).place_of.empty()) continue;
    for (std::size_t m = 0; m < annotation->mentions.size(); ++m) {
      if (ask(*annotation, m, patterns_.pieces(i), group_of(corpus.number, i), plans_.back()))
        asked.insert(m);
    }
    const bool ends = i + 1 == corpus.annotations.size() || corpus.annotations[i + 1] != annotation;
    if (!ends) continue;
    mentions_ += annotation->mentions.size();
    for (std::size_t m = 0; m < annotation->mentions.size(); ++m) {
      if (!asked.contains(m) && is_anaphoric(*annotation, m)) ++left_out_;
    }
    asked.clear();
  }
}

bool CoreferenceMeasure::is_anaphoric(const ConlluSentence& sentence, std::size_t number) {
  const Mention& mention = sentence.mentions[number];
  return std::ranges::any_of(sentence.mentions, [&](const Mention& other) {
    return other.entity == mention.entity && other.head < mention.head;
  });
}

/// Adds the question of a mention. Returns false if the mention has no antecedent or no token.
bool CoreferenceMeasure::ask(const ConlluSentence& sentence, std::size_t number, const WordPieces& pieces,
                             std::size_t group, Plan& plan) {
  const Mention& mention = sentence.mentions[number];
  const std::size_t place = pieces.place_of[mention.head];
  if (place == WordPieces::kNone) return false;
  const std::string text = string_of(mention, sentence);
  struct Candidate {
    bool antecedent = false, same_string = false;
  };
  std::map<std::size_t, Candidate> candidates;  // by word position
  for (const Mention& other : sentence.mentions) {
    const std::size_t other_place = pieces.place_of[other.head];
    if (other_place == WordPieces::kNone || other_place >= place) continue;
    Candidate& candidate = candidates[other_place];
    candidate.antecedent = candidate.antecedent || other.entity == mention.entity;
    candidate.same_string = candidate.same_string || string_of(other, sentence) == text;
  }
  Question question{.place = place};
  const Candidate* same = nullptr;
  std::uint64_t antecedents = 0;
  for (const auto& [at, candidate] : candidates) {
    question.candidates.emplace_back(at, candidate.antecedent);
    if (candidate.antecedent) ++antecedents;
    if (candidate.same_string) same = &candidate;
  }
  if (antecedents == 0) return false;
  question.counts.push_back(&scores_[0].group(group));
  if (mention.type)
    question.counts.push_back(&scores_[1 + static_cast<std::size_t>(*mention.type)].group(group));
  for (std::vector<std::uint64_t>* const counts : question.counts) {
    ++(*counts)[0];
    std::uint64_t* const baselines = counts->data() + 1 + shape_.heads.size();
    if (question.candidates.back().second) ++baselines[kNearest];
    if (same != nullptr && same->antecedent) ++baselines[kSameString];
    baselines[kRandom] += (antecedents * kParts + candidates.size() / 2) / candidates.size();
  }
  plan.push_back(std::move(question));
  return true;
}

void CoreferenceMeasure::panel(const StudyPanel& panel) {
  const Plan& plan = plans_[panel.panel.sequence];
  if (plan.empty()) return;
  const auto matrix = patterns_.add(panel);
  if (!matrix) return;
  for (const Question& question : plan) {
    const std::span<const double> row = matrix->row(question.place);
    double largest = 0;
    bool right = false;
    for (const auto& [place, antecedent] : question.candidates) {
      if (row[place] <= largest) continue;
      largest = row[place];
      right = antecedent;
    }
    if (!right) continue;
    for (std::vector<std::uint64_t>* const counts : question.counts) ++(*counts)[1 + panel.head];
  }
}

void CoreferenceMeasure::merge(const Measure& other) {
  const auto& from = dynamic_cast<const CoreferenceMeasure&>(other);
  mentions_ += from.mentions_;
  left_out_ += from.left_out_;
  for (std::size_t i = 0; i < scores_.size(); ++i) scores_[i].merge(from.scores_[i]);
}

void CoreferenceMeasure::save(StateWriter& out) const {
  out.number(mentions_);
  out.number(left_out_);
  for (const GroupScores& scores : scores_) scores.save(out);
}

void CoreferenceMeasure::load(StateReader& in) {
  mentions_ = in.number();
  left_out_ = in.number();
  for (GroupScores& scores : scores_) scores.load(in);
}

Cell CoreferenceMeasure::baseline(const GroupScores& scores, Baseline which, Half half) const {
  const auto share = scores.accuracy(shape_.heads.size() + which, half);
  if (!share) return {};
  return real_cell(which == kRandom ? *share / static_cast<double>(kParts) : *share);
}

/// Returns the accuracy of the same head on shuffled tokens, in odd blocks.
std::optional<double> CoreferenceMeasure::shuffled(std::size_t type, std::size_t head) const {
  const auto* const twin = dynamic_cast<const CoreferenceMeasure*>(shuffled_twin());
  return twin == nullptr ? std::nullopt : twin->scores_[type].accuracy(head, kOddBlocks);
}

ResultRow CoreferenceMeasure::row(std::size_t type, std::size_t head,
                                  const std::optional<ConfidenceInterval>& interval) const {
  const GroupScores& scores = scores_[type];
  return {{"mention_type", Cell(std::string(kTypes.at(type)))},
          {"head", RowHead{head}},
          {"hits", count_cell(scores.right(head))},
          {"count", count_cell(scores.asked())},
          {"accuracy", real_cell(scores.accuracy(head))},
          {"interval", interval},
          {"nearest", baseline(scores, kNearest)},
          {"same_string", baseline(scores, kSameString)},
          {"random", baseline(scores, kRandom)},
          {"best", Cell(scores.best(0, shape_.heads.size()) == head)},
          {"count_held_out", count_cell(scores.asked(kOddBlocks))},
          {"accuracy_held_out", real_cell(scores.accuracy(head, kOddBlocks))},
          {"shuffled_held_out", real_cell(shuffled(type, head))}};
}

/// Returns the best head per type of mention (chosen on even blocks, scored on odd ones).
TextTable CoreferenceMeasure::text(const Bootstrap& bootstrap) const {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t type = 0; type < kTypes.size(); ++type) {
    const GroupScores& scores = scores_[type];
    const auto best = scores.best(0, shape_.heads.size());
    if (!best) continue;
    rows.push_back(
        {std::string(kTypes.at(type)), count_cell(scores.asked(kOddBlocks)), shape_.heads[*best].name,
         score_text(scores.accuracy(*best, kOddBlocks), bootstrap.interval(scores, *best, kOddBlocks)),
         baseline(scores, kNearest, kOddBlocks), baseline(scores, kSameString, kOddBlocks),
         baseline(scores, kRandom, kOddBlocks)});
  }
  return {
      "Coreference: the best head of even blocks, in odd ones",
      make_table("coreference", {"mentions", "count", "head", "accuracy", "nearest", "same string", "random"},
                 std::move(rows))};
}

/// Adds evidence for the best head per type of mention (chosen on even blocks, scored on odd ones).
void CoreferenceMeasure::add_evidence(StudyResults& results, const Bootstrap& bootstrap) const {
  const std::size_t heads = shape_.heads.size();
  for (std::size_t type = 0; type < kTypes.size(); ++type) {
    const GroupScores& scores = scores_[type];
    const auto best = scores.best(0, heads);
    if (!best || scores.asked(kOddBlocks) == 0) continue;
    const double by_chance = *scores.accuracy(heads + kRandom, kOddBlocks) / static_cast<double>(kParts);
    results.evidence.push_back(
        {.head = *best,
         .role = "coreferent",
         .detail = std::string(kTypes.at(type)),
         .score = scores.accuracy(*best, kOddBlocks),
         .null = std::max({*scores.accuracy(heads + kNearest, kOddBlocks),
                           *scores.accuracy(heads + kSameString, kOddBlocks), by_chance}),
         .interval = bootstrap.interval(scores, *best, kOddBlocks),
         .count = scores.asked(kOddBlocks),
         .shuffled = shuffled(type, *best)});
  }
}

void CoreferenceMeasure::finish(StudyResults& results) const {
  if (mentions_ == 0) return;
  std::set<std::size_t> occupied;
  scores_[0].add_occupied(occupied);
  const Bootstrap bootstrap(shape_.seed, occupied);
  std::vector<ResultRow> rows;
  for (std::size_t type = 0; type < kTypes.size(); ++type) {
    const auto intervals = bootstrap.intervals(scores_[type], 0, shape_.heads.size());
    for (std::size_t head = 0; head < shape_.heads.size(); ++head)
      rows.push_back(row(type, head, intervals[head]));
  }
  add_rows(results, shape_, "coreference", "coreference", std::move(rows));
  results.text.push_back(text(bootstrap));
  add_evidence(results, bootstrap);
  Record summary;
  summary.set("mentions", mentions_).set("anaphoric", scores_[0].asked()).set("left_out", left_out_);
  results.summary.set("coreference", std::move(summary));
}

std::span<const Metric> coreference_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_coreference_measure(const StudyShape& shape) {
  return std::make_unique<CoreferenceMeasure>(shape);
}

}  // namespace attnctl
