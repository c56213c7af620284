#include <set>

#include "study/measure.hpp"
#include "study/measures/relations.hpp"

// The measure `coreference`: how often a head attends from an anaphoric mention to an antecedent. A mention
// is anaphoric if another mention of the same entity has an earlier head word. The candidates are the head
// words of other mentions that come before the head word of this mention. A candidate is an antecedent if it
// is the head word of a mention of the same entity. Every antecedent counts as a correct answer.
namespace attnctl::study {
namespace {

constexpr std::array kTypes = {"all", "pronoun", "proper", "nominal"};
/// Fixed-point scale of the counts of the random baseline, which adds a fraction for each mention.
constexpr std::uint64_t kParts = std::uint64_t{1} << 32;

constexpr auto kCoreferenceDefinitions = std::to_array<Definition>({
    {"coreference_accuracy", "share", "[0, 1]",
     "the most accurate of three baselines: nearest, same_string and random",
     "share of anaphoric mentions whose head word gives its largest weight, among the head words of earlier "
     "mentions, to an antecedent",
     "Clark et al. 2019, section 4.3"},
    {"mention_type", "", "", "", "type of the anaphoric mentions: all, pronoun, proper or nominal"},
    {"coreference.hits", "", "from 0", "", "number of mentions that the head gets right (see accuracy)"},
    {"coreference.count", "", "from 0", "",
     "number of scored mentions: those with an earlier mention of the same entity"},
    {"coreference.accuracy", "", "[0, 1]", "",
     "share of mentions whose largest weight on an earlier mention is on one of the same entity"},
    {"nearest", "", "[0, 1]", "", "accuracy of choosing the nearest earlier mention"},
    {"same_string", "", "[0, 1]", "", "accuracy of choosing the nearest earlier mention with the same text"},
    {"coreference.random", "", "[0, 1]", "", "accuracy expected of a random earlier mention"},
});

std::string string_of(const input::Mention& mention, const input::ConlluSentence& sentence) {
  std::string text;
  for (const std::size_t word : mention.words)
    text += (text.empty() ? "" : " ") + sentence.words[word].word.form;
  return lower_case(text);
}

class CoreferenceMeasure final : public PartsMeasure<CoreferenceMeasure> {
 public:
  explicit CoreferenceMeasure(const StudyShape& shape)
      : PartsMeasure(shape), scores_(kTypes.size(), GroupScores(shape.heads.size() + kBaselines)) {}

  void begin(const StudyBlock& block) override {
    const CorpusBlock& corpus = block.corpus;
    patterns_.begin(block, [&](std::size_t i) { return !corpus.annotations[i]->mentions.empty(); });
    // The mentions for which ask() added a question in at least one window of the sentence.
    std::set<const input::Mention*> asked;
    for (std::size_t i = 0; i < corpus.annotations.size(); ++i) {
      plans_.emplace_back();
      const auto& annotation = corpus.annotations[i];
      if (patterns_.pieces(i).place_of.empty()) continue;
      for (const input::Mention& mention : annotation->mentions) {
        if (ask(*annotation, mention, patterns_.pieces(i), group_of(corpus.number, i), plans_.back()))
          asked.insert(&mention);
      }
      const bool last_window = i + 1 == corpus.annotations.size() || corpus.annotations[i + 1] != annotation;
      if (!last_window) continue;
      mentions_ += annotation->mentions.size();
      for (const input::Mention& mention : annotation->mentions) {
        const bool anaphoric = std::ranges::any_of(annotation->mentions, [&](const input::Mention& other) {
          return other.entity == mention.entity && other.head < mention.head;
        });
        if (anaphoric && !asked.contains(&mention)) ++left_out_;
      }
      asked.clear();
    }
  }
  void panel(const StudyPanel& panel) override {
    const std::vector<MentionQuestion>& plan = plans_[panel.panel.sequence];
    if (plan.empty()) return;
    const MatrixView<const double> matrix = patterns_.add(panel);
    if (matrix.empty()) return;
    for (const MentionQuestion& question : plan) {
      const std::span<const double> row = matrix.row(question.place);
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
  auto parts() { return std::tie(mentions_, left_out_, scores_); }
  bool has_data() const override { return mentions_ > 0; }
  bool all_in_even_blocks() const override { return scores_[0].all_even(); }
  void finish(StudyResults& results) const override {
    std::vector<std::vector<Cell>> rows;
    for (std::size_t type = 0; type < kTypes.size(); ++type) {
      const GroupScores& scores = scores_[type];
      for (std::size_t head = 0; head < heads(); ++head) {
        rows.push_back(row_of(kTypes.at(type), shape_.head_cells(head), scores.right(head), scores.asked(),
                              scores.accuracy(head), interval_cells(scores.estimate(head)),
                              baseline(type, kNearest, kAllBlocks), baseline(type, kSameString, kAllBlocks),
                              baseline(type, kRandom, kAllBlocks), scores.best(0, heads()) == head,
                              scores.asked(kOddBlocks), scores.accuracy(head, kOddBlocks),
                              shuffled(type, head)));
      }
    }
    add_table(results, "coreference", "coreference",
              {"mention_type", "component", "layer", "head", "name", "hits", "count", "accuracy",
               "interval_low", "interval_high", "nearest", "same_string", "random", "best", "count_held_out",
               "accuracy_held_out", "shuffled_held_out"},
              std::move(rows));
    add_best(results);
    results.summary.set(
        "coreference",
        Record{{{"mentions", mentions_}, {"anaphoric", scores_[0].asked()}, {"left_out", left_out_}}});
  }

 private:
  /// The baselines. In GroupScores, they follow the heads.
  enum Baseline : std::size_t { kNearest, kSameString, kRandom, kBaselines };
  /// An anaphoric mention, its candidates, and the counts to which the results are added.
  struct MentionQuestion {
    std::size_t place = 0;  // index of the mention's head word in WordPieces::words
    // Index of the candidate in WordPieces::words; true for an antecedent.
    std::vector<std::pair<std::size_t, bool>> candidates = {};
    std::vector<std::vector<std::uint64_t>*> counts = {};
  };

  /// Adds a question for a mention. Returns false if no antecedent is in the window, or if the head word of
  /// the mention has no token in the window.
  [[nodiscard]] bool ask(const input::ConlluSentence& sentence, const input::Mention& mention,
                         const WordPieces& pieces, std::size_t group, std::vector<MentionQuestion>& plan) {
    const std::size_t place = pieces.place_of[mention.head];
    if (place == WordPieces::kNone) return false;
    const std::string text = string_of(mention, sentence);
    struct AntecedentCandidate {
      bool antecedent = false, same_string = false;
    };
    std::map<std::size_t, AntecedentCandidate> candidates;  // by index in WordPieces::words
    for (const input::Mention& other : sentence.mentions) {
      const std::size_t other_place = pieces.place_of[other.head];
      if (other_place == WordPieces::kNone || other_place >= place) continue;
      AntecedentCandidate& candidate = candidates[other_place];
      candidate.antecedent = candidate.antecedent || other.entity == mention.entity;
      candidate.same_string = candidate.same_string || string_of(other, sentence) == text;
    }
    MentionQuestion question{.place = place};
    const AntecedentCandidate* same = nullptr;
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
      std::uint64_t* const baselines = counts->data() + 1 + heads();
      if (question.candidates.back().second) ++baselines[kNearest];
      if (same != nullptr && same->antecedent) ++baselines[kSameString];
      baselines[kRandom] += (antecedents * kParts + candidates.size() / 2) / candidates.size();
    }
    plan.push_back(std::move(question));
    return true;
  }
  [[nodiscard]] std::optional<double> baseline(std::size_t type, Baseline which, Half half) const {
    auto share = scores_[type].accuracy(heads() + which, half);
    if (share && which == kRandom) *share /= static_cast<double>(kParts);
    return share;
  }
  [[nodiscard]] std::optional<double> shuffled(std::size_t type, std::size_t head) const {
    const auto* const twin = dynamic_cast<const CoreferenceMeasure*>(shuffled_twin_);
    return twin == nullptr ? std::nullopt : twin->scores_[type].accuracy(head, kOddBlocks);
  }
  /// Adds the best head for each type of mention to the text output and to the evidence. The best head is
  /// chosen on even blocks and scored on odd blocks.
  void add_best(StudyResults& results) const {
    std::vector<std::vector<Cell>> rows;
    bool all_scored = true;
    for (std::size_t type = 0; type < kTypes.size(); ++type) {
      const GroupScores& scores = scores_[type];
      const auto best = scores.best(0, heads());
      const auto accuracy = best ? scores.accuracy(*best, kOddBlocks) : std::nullopt;
      const std::array baselines = {baseline(type, kNearest, kOddBlocks),
                                    baseline(type, kSameString, kOddBlocks),
                                    baseline(type, kRandom, kOddBlocks)};
      rows.push_back(row_of(kTypes.at(type), scores.asked(kOddBlocks),
                            accuracy ? Cell(shape_.heads[*best].name) : Cell(),
                            score_text(accuracy, scores.estimate(best.value_or(0), kOddBlocks)), baselines));
      all_scored = all_scored && accuracy;
      if (!accuracy) continue;
      const auto null = std::ranges::max_element(baselines);
      const auto which = static_cast<std::size_t>(null - baselines.begin());
      const double scale = which == kRandom ? static_cast<double>(kParts) : 1;
      results.evidence.push_back(
          held_out_evidence(*best, "coreferent", kTypes.at(type), scores, *best, {heads() + which, scale}));
      results.evidence.back().shuffled = shuffled(type, *best);
    }
    results.text.emplace_back(TextTable{
        "Coreference: best head per mention type (chosen on one half of the corpus, scored on the other)",
        make_table("coreference",
                   {"mentions", "count", "head", "accuracy", "nearest", "same string", "random"},
                   std::move(rows))});
    if (!all_scored) results.text.emplace_back(TextLine{"-", ": one half of the corpus has no such mention"});
  }

  std::vector<GroupScores> scores_;  // [kTypes]
  std::uint64_t mentions_ = 0;
  std::uint64_t left_out_ = 0;  // anaphoric mentions without a question in any window; see ask()
  WordPatterns patterns_;
  std::vector<std::vector<MentionQuestion>> plans_;  // [sequences]
};

}  // namespace

MeasureRow coreference_measure() {
  return {
      .name = "coreference",
      .description = "for a corpus with mentions: heads that attend to an earlier mention of the same entity",
      .make = make_measure<CoreferenceMeasure>,
      .definitions = kCoreferenceDefinitions,
      .gives_evidence = true,
      .depends_on_order = true,
      .annotation = "mentions (Entity= in MISC of CoNLL-U, or \"mentions\" of JSON)",
      .needs = "CoNLL-U with Entity= in MISC, or JSON with \"mentions\"",
      .formats = {input::InputFormat::conllu, input::InputFormat::json, input::InputFormat::jsonl}};
}

}  // namespace attnctl::study
