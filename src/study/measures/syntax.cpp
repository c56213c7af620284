#include <set>

#include <fmt/ranges.h>

#include "study/measure.hpp"
#include "study/measures/relations.hpp"

// The measure `syntax`: how well the heads' patterns over words match the dependencies of a treebank.
namespace attnctl::study {
namespace {

constexpr auto kSyntaxDefinitions = std::to_array<Definition>({
    {"relation_accuracy", "share", "[0, 1]", "baseline: the best fixed offset, -5 to 5 words",
     "share of the word pairs of a relation in which one word gives its largest weight, among all other "
     "words, to the other word of the pair",
     "Clark et al. 2019, section 4.2; Voita et al. 2019, section 5.2"},
    {"tree_accuracy", "share", "[0, 1]", "adjacent: each word is joined to the next word",
     "share of annotated edges that are in the maximum spanning tree of A + A^T over words, ignoring "
     "direction and punctuation (UUAS)",
     "Hewitt and Manning 2019; Htut et al. 2019"},
    {"relation", "", "", "", "dependency relation of the treebank (DEPREL)"},
    {"direction", "", "", "", "to_head: from the dependent to its head word; to_dependent: the opposite"},
    {"relations.hits", "", "from 0", "", "number of word pairs that the head gets right (see accuracy)"},
    {"relations.count", "", "from 0", "", "number of word pairs of this relation"},
    {"relations.accuracy", "", "[0, 1]", "",
     "share of word pairs in which this attention head's largest weight is on the right word: to_head: of "
     "the "
     "dependent on its head word; to_dependent: the reverse"},
    {"relations.gain_interval_low", "", "[-1, 1]", "",
     "lower end of the 95 % interval of accuracy_held_out - baseline_held_out (docs/roles.md)"},
    {"relations.gain_interval_high", "", "[-1, 1]", "",
     "upper end of the 95 % interval of accuracy_held_out - baseline_held_out (docs/roles.md)"},
    {"trees.kind", "", "head, combined or adjacent", "",
     "tree of a head, of all heads combined, or of each word joined to the next word"},
    {"trees.hits", "", "from 0", "", "number of annotated edges that are in the tree"},
    {"trees.count", "", "from 0", "", "number of annotated edges, without punctuation"},
    {"trees.accuracy", "", "[0, 1]", "",
     "share of annotated edges that are in the maximum spanning tree of the head's weights between words"},
    {"baseline", "", "[0, 1]", "", "accuracy of the best fixed offset, chosen on all blocks"},
    {"baseline_offset", "words", "[-5, 5]", "", "offset of baseline: attended word - attending word"},
    {"baseline_held_out", "", "[0, 1]", "", "accuracy of baseline_offset over odd blocks"},
});

constexpr std::int64_t kFarthestWord = 5;  // largest fixed offset in words
constexpr std::size_t kOffsets = 2 * kFarthestWord;
/// The baselines of the trees. In GroupScores, they follow the heads.
enum TreeBaseline : std::size_t { kCombined, kAdjacent, kTreeBaselines };

/// Returns the index of an offset among the fixed offsets -5..-1, 1..5, or nullopt for other offsets.
std::optional<std::size_t> offset_answer(std::int64_t offset) {
  if (offset == 0 || offset < -kFarthestWord || offset > kFarthestWord) return std::nullopt;
  return static_cast<std::size_t>(offset + kFarthestWord - (offset > 0 ? 1 : 0));
}

std::string_view without_subtype(std::string_view relation) {
  return relation.substr(0, relation.find(':'));
}

struct SyntaxCounts {
  std::uint64_t sentences = 0;
  std::uint64_t words = 0;
  std::uint64_t words_without_piece = 0;  // words without a token in any window
  std::uint64_t pairs_left_out = 0;       // words with a head word, in no window together with it

  auto parts() { return std::tie(sentences, words, words_without_piece, pairs_left_out); }
};

/// One dependency relation in one direction.
struct RelationQuestion {
  const std::string* relation = nullptr;
  const GroupScores* scores = nullptr;
  bool to_head = true;
  std::size_t first = 0;             // index of attention head 0 in `scores`; the others follow
  std::optional<std::size_t> best;   // index of the best attention head in `scores`
  std::size_t baseline = 0;          // index of the best fixed offset in `scores`
  std::int64_t baseline_offset = 0;  // best fixed offset: attended word - attending word

  RelationQuestion(const std::string& name, const GroupScores& answers, std::size_t heads,
                   bool from_dependent)
      : relation(&name),
        scores(&answers),
        to_head(from_dependent),
        first(from_dependent ? 0 : heads),
        best(answers.best(first, heads)) {
    // Of offsets with the same score, prefers the smaller distance, then the negative offset.
    for (std::int64_t distance = 1; distance <= kFarthestWord; ++distance) {
      for (const std::int64_t offset : {-distance, distance}) {
        const std::size_t answer = 2 * heads + *offset_answer(to_head ? offset : -offset);
        if (baseline_offset != 0 && answers.right(answer) <= answers.right(baseline)) continue;
        baseline = answer;
        baseline_offset = offset;
      }
    }
  }
};

class SyntaxMeasure final : public PartsMeasure<SyntaxMeasure> {
 public:
  explicit SyntaxMeasure(const StudyShape& shape)
      : PartsMeasure(shape), trees_(shape.heads.size() + kTreeBaselines) {}

  void begin(const StudyBlock& block) override {
    const CorpusBlock& corpus = block.corpus;
    patterns_.begin(block, [&](std::size_t sequence) {
      return std::ranges::any_of(corpus.annotations[sequence]->words,
                                 [](const input::ConlluWord& word) { return word.head.has_value(); });
    });
    // The words of a sentence in at least one window, and those in a window together with their head word.
    std::set<std::size_t> found_words, found_pairs;
    for (std::size_t i = 0; i < corpus.annotations.size(); ++i) {
      SentencePlan& plan_of = plans_.emplace_back();
      const auto& annotation = corpus.annotations[i];
      const WordPieces& pieces = patterns_.pieces(i);
      if (pieces.place_of.empty()) continue;
      plan(*annotation, pieces, group_of(corpus.number, i), plan_of);
      found_words.insert(pieces.words.begin(), pieces.words.end());
      for (const WordPair& pair : plan_of.pairs) found_pairs.insert(pieces.words[pair.dependent]);
      const bool last_window = i + 1 == corpus.annotations.size() || corpus.annotations[i + 1] != annotation;
      if (!last_window) continue;
      ++counts_.sentences;
      counts_.words += annotation->words.size();
      counts_.words_without_piece += annotation->words.size() - found_words.size();
      counts_.pairs_left_out += static_cast<std::uint64_t>(std::ranges::count_if(
          annotation->words, [](const input::ConlluWord& word) { return word.head.value_or(0) > 0; }));
      counts_.pairs_left_out -= found_pairs.size();
      found_words.clear();
      found_pairs.clear();
    }
  }
  void panel(const StudyPanel& panel) override {
    const MatrixView<const double> matrix = patterns_.add(panel);
    if (matrix.empty()) return;
    SentencePlan& plan = plans_[panel.panel.sequence];
    largest_.clear();
    for (std::size_t place = 0; place < matrix.rows; ++place)
      largest_.push_back(largest_other(matrix.row(place), place));
    const std::size_t to_head = 1 + panel.head;
    const std::size_t to_dependent = to_head + heads();
    for (const WordPair& pair : plan.pairs) {
      if (largest_[pair.dependent] == pair.head) ++(*pair.counts)[to_head];
      if (largest_[pair.head] == pair.dependent) ++(*pair.counts)[to_dependent];
    }
    if (plan.trees == nullptr) return;
    const std::size_t n = plan.nodes.size();
    edges_.resize(n * n);
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        const double weight = matrix(plan.nodes[a], plan.nodes[b]) + matrix(plan.nodes[b], plan.nodes[a]);
        edges_[a * n + b] = edges_[b * n + a] = weight;
        plan.combined[a * n + b] += weight;
      }
    }
    (*plan.trees)[1 + panel.head] += hits(plan, edges_);
  }
  void end() override {
    for (SentencePlan& plan : plans_) {
      if (plan.trees == nullptr) continue;
      const std::size_t n = plan.nodes.size();
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < a; ++b) plan.combined[b * n + a] = plan.combined[a * n + b];
      }
      (*plan.trees)[1 + heads() + kCombined] += hits(plan, plan.combined);
    }
  }
  auto parts() { return std::tie(counts_, relations_, trees_); }
  void load(StateReader& in) override {
    load_state(in, counts_);
    relations_.clear();
    for (std::size_t left = in.count(); left > 0; --left) {
      const std::string name = in.text();
      relation(name).load(in);
    }
    trees_.load(in);
  }
  bool has_data() const override { return counts_.sentences > 0; }
  bool all_in_even_blocks() const override { return trees_.all_even(); }
  void finish(StudyResults& results) const override {
    std::vector<RelationQuestion> questions;
    for (const auto& [name, scores] : relations_) {
      for (const bool to_head : {true, false}) questions.emplace_back(name, scores, heads(), to_head);
    }
    std::vector<std::vector<Cell>> rows;
    for (const RelationQuestion& each : questions) {
      for (std::size_t head = 0; head < heads(); ++head) rows.push_back(row(each, head));
      if (!each.best) continue;
      results.evidence.push_back(
          held_out_evidence(*each.best - each.first, "syntactic",
                            *each.relation + (each.to_head ? " to_head" : " to_dependent"), *each.scores,
                            *each.best, {each.baseline}));
      results.evidence.back().shuffled = shuffled(each, *each.best);
    }
    std::vector<Column> columns = {"relation", "direction",    "component",    "layer",
                                   "head",     "name",         "hits",         "count",
                                   "accuracy", "interval_low", "interval_high"};
    for (const char* const column :
         {"baseline", "baseline_offset", "best", "count_held_out", "accuracy_held_out", "baseline_held_out",
          "shuffled_held_out", "gain_interval_low", "gain_interval_high"})
      columns.emplace_back(column);
    add_table(results, "relation", "relations", std::move(columns), std::move(rows));
    add_table(results, "tree", "trees",
              {"kind", "component", "layer", "head", "name", "hits", "count", "accuracy", "interval_low",
               "interval_high", "best", "count_held_out", "accuracy_held_out", "shuffled_held_out"},
              tree_rows());
    add_relations_text(results, questions);
    results.text.emplace_back(trees_text());
    results.summary.set("syntax", Record{{{"sentences", counts_.sentences},
                                          {"words", counts_.words},
                                          {"words_without_piece", counts_.words_without_piece},
                                          {"pairs_left_out", counts_.pairs_left_out}}});
  }

 private:
  /// A word and its head word, as indices in WordPieces::words, and the counts of the relation between them.
  struct WordPair {
    std::size_t dependent = 0, head = 0;
    std::vector<std::uint64_t>* counts = nullptr;
  };
  struct SentencePlan {
    std::vector<WordPair> pairs;
    std::vector<std::size_t> nodes;               // index of each node of the tree in WordPieces::words
    std::vector<std::size_t> gold;                // [nodes], node of the head word; kNone: no such node
    std::vector<std::uint64_t>* trees = nullptr;  // counts of the trees; null without annotated edges
    std::vector<double> combined;                 // [nodes, nodes], edge weights summed over all heads
  };

  [[nodiscard]] GroupScores& relation(std::string_view name) {
    if (shape_.fold_subtypes) name = without_subtype(name);
    return relations_.try_emplace(std::string(name), GroupScores(2 * heads() + kOffsets)).first->second;
  }
  void plan(const input::ConlluSentence& sentence, const WordPieces& pieces, std::size_t group,
            SentencePlan& plan) {
    std::vector<std::size_t> node_of(pieces.places(), WordPieces::kNone);
    for (std::size_t place = 0; place < pieces.places(); ++place) {
      if (without_subtype(sentence.words[pieces.words[place]].deprel) == "punct") continue;
      node_of[place] = plan.nodes.size();
      plan.nodes.push_back(place);
    }
    plan.gold.assign(plan.nodes.size(), WordPieces::kNone);
    std::uint64_t edges = 0;
    std::uint64_t adjacent = 0;
    for (std::size_t place = 0; place < pieces.places(); ++place) {
      const std::size_t word = pieces.words[place];
      const std::uint32_t head = sentence.words[word].head.value_or(0);
      if (head == 0 || pieces.place_of[head - 1] == WordPieces::kNone) continue;
      const std::size_t head_place = pieces.place_of[head - 1];
      std::vector<std::uint64_t>& counts = relation(sentence.words[word].deprel).group(group);
      plan.pairs.push_back({place, head_place, &counts});
      ++counts[0];
      const auto offset = static_cast<std::int64_t>(head - 1) - static_cast<std::int64_t>(word);
      if (const auto answer = offset_answer(offset)) ++counts[1 + 2 * heads() + *answer];
      const std::size_t node = node_of[place];
      const std::size_t head_node = node_of[head_place];
      if (node == WordPieces::kNone || head_node == WordPieces::kNone) continue;
      plan.gold[node] = head_node;
      ++edges;
      if (head_node + 1 == node || node + 1 == head_node) ++adjacent;
    }
    if (edges == 0) return;
    plan.trees = &trees_.group(group);
    (*plan.trees)[0] += edges;
    (*plan.trees)[1 + heads() + kAdjacent] += adjacent;
    plan.combined.assign(plan.nodes.size() * plan.nodes.size(), 0.0);
  }
  [[nodiscard]] std::uint64_t hits(const SentencePlan& plan, std::span<const double> weights) {
    const std::span<const std::size_t> parent = tree_.find(weights, plan.nodes.size());
    std::uint64_t hits = 0;
    for (std::size_t node = 1; node < parent.size(); ++node) {
      if (plan.gold[node] == parent[node] || plan.gold[parent[node]] == node) ++hits;
    }
    return hits;
  }

  [[nodiscard]] std::optional<double> shuffled(const RelationQuestion& question, std::size_t answer) const {
    const auto* const twin = dynamic_cast<const SyntaxMeasure*>(shuffled_twin_);
    if (twin == nullptr) return std::nullopt;
    const auto found = twin->relations_.find(*question.relation);
    return found == twin->relations_.end() ? std::nullopt : found->second.accuracy(answer, kOddBlocks);
  }
  [[nodiscard]] std::vector<Cell> row(const RelationQuestion& question, std::size_t head) const {
    const GroupScores& scores = *question.scores;
    const std::size_t answer = question.first + head;
    const bool best = question.best == answer;
    const auto excess =
        best ? scores.estimate(answer, kOddBlocks, ScoredBaseline{question.baseline}) : std::nullopt;
    const auto gain = excess ? std::optional(excess->difference_interval()) : std::nullopt;
    return row_of(*question.relation, question.to_head ? "to_head" : "to_dependent", shape_.head_cells(head),
                  scores.right(answer), scores.asked(), scores.accuracy(answer),
                  interval_cells(scores.estimate(answer)), scores.accuracy(question.baseline),
                  question.baseline_offset, best, scores.asked(kOddBlocks),
                  scores.accuracy(answer, kOddBlocks), scores.accuracy(question.baseline, kOddBlocks),
                  shuffled(question, answer), interval_cells(gain));
  }
  [[nodiscard]] std::vector<std::vector<Cell>> tree_rows() const {
    const auto* const twin = dynamic_cast<const SyntaxMeasure*>(shuffled_twin_);
    std::vector<std::vector<Cell>> rows;
    const auto best = trees_.best(0, heads());
    for (std::size_t answer = 0; answer < heads() + kTreeBaselines; ++answer) {
      const bool head = answer < heads();
      const char* const kind = head ? "head" : answer == heads() + kCombined ? "combined" : "adjacent";
      const auto shuffled = twin == nullptr ? std::nullopt : twin->trees_.accuracy(answer, kOddBlocks);
      rows.push_back(row_of(kind, shape_.head_cells(head ? std::optional(answer) : std::nullopt),
                            trees_.right(answer), trees_.asked(), trees_.accuracy(answer),
                            interval_cells(trees_.estimate(answer)), head && best == answer,
                            trees_.asked(kOddBlocks), trees_.accuracy(answer, kOddBlocks), shuffled));
    }
    return rows;
  }
  /// Adds a table of the most frequent relations, each in the direction in which the best head exceeds the
  /// baseline by more. `questions` has the two directions of a relation side by side.
  void add_relations_text(StudyResults& results, const std::vector<RelationQuestion>& questions) const {
    constexpr std::size_t most = 20;
    const auto gain = [](const RelationQuestion& question) {
      return question.scores->accuracy(*question.best, kOddBlocks).value_or(0) -
             question.scores->accuracy(question.baseline, kOddBlocks).value_or(0);
    };
    std::vector<const RelationQuestion*> shown;
    for (std::size_t i = 0; i < questions.size(); i += 2) {
      const RelationQuestion& to_head = questions[i];
      const bool turned = to_head.best && gain(questions[i + 1]) > gain(to_head);
      shown.push_back(turned ? &questions[i + 1] : &to_head);
    }
    std::ranges::stable_sort(shown, std::ranges::greater(),
                             [](const RelationQuestion* question) { return question->scores->asked(); });
    std::vector<std::string> rare;
    for (std::size_t i = most; i < shown.size(); ++i) rare.push_back(*shown[i]->relation);
    shown.resize(std::min(shown.size(), most));
    std::vector<std::vector<Cell>> rows;
    bool all_scored = true;
    for (const RelationQuestion* const each : shown) {
      const GroupScores& scores = *each->scores;
      const bool scored = each->best && scores.asked(kOddBlocks) > 0;
      all_scored = all_scored && scored;
      rows.push_back(row_of(
          *each->relation, each->to_head ? "to_head" : "to_dependent", scores.asked(kOddBlocks),
          scored ? Cell(shape_.heads[*each->best - each->first].name) : Cell(),
          scored
              ? score_text(scores.accuracy(*each->best, kOddBlocks), scores.estimate(*each->best, kOddBlocks))
              : Cell(),
          score_text(scores.accuracy(each->baseline, kOddBlocks)), each->baseline_offset));
    }
    results.text.emplace_back(TextTable{
        "Relations: best head per relation (chosen on one half of the corpus, scored on the other)",
        make_table("relations", {"relation", "direction", "count", "head", "accuracy", "baseline", "offset"},
                   std::move(rows))});
    if (!all_scored)
      results.text.emplace_back(TextLine{"-", ": one half of the corpus has no such word pair"});
    if (!rare.empty())
      results.text.emplace_back(
          TextLine{"Not shown", fmt::format(": {} (rarer; JSON and CSV have them)", fmt::join(rare, ", "))});
  }
  [[nodiscard]] TextTable trees_text() const {
    std::vector<std::vector<Cell>> rows;
    const auto add = [&](const std::string& name, std::size_t answer) {
      rows.push_back({name, count_cell(trees_.asked(kOddBlocks)),
                      score_text(trees_.accuracy(answer, kOddBlocks), trees_.estimate(answer, kOddBlocks))});
    };
    if (const auto best = trees_.best(0, heads())) add("head " + shape_.heads[*best].name, *best);
    add("all heads", heads() + kCombined);
    add("adjacent words", heads() + kAdjacent);
    return {
        "Trees: share of annotated edges in the tree (chosen on one half of the corpus, scored on the other)",
        make_table("trees", {"tree of", "edges", "accuracy"}, std::move(rows))};
  }

  SyntaxCounts counts_;
  /// Answers of each relation: each attention head from the dependent to the head word, each attention head
  /// from the head word to the dependent, and the offsets -5..-1, 1..5 from the dependent to the head word.
  std::map<std::string, GroupScores> relations_;
  GroupScores trees_;
  WordPatterns patterns_;
  std::vector<SentencePlan> plans_;  // [sequences]
  std::vector<std::size_t> largest_;
  std::vector<double> edges_;
  MaximumSpanningTree tree_;
};

}  // namespace

MeasureRow syntax_measure() {
  return {.name = "syntax",
          .description = "for a treebank: dependency relations and trees that heads follow",
          .make = make_measure<SyntaxMeasure>,
          .definitions = kSyntaxDefinitions,
          .gives_evidence = true,
          .depends_on_order = true,
          .annotation = "relations (HEAD and DEPREL of CoNLL-U)",
          .needs = "CoNLL-U with HEAD and DEPREL (a file .conllu, or --input-format conllu)",
          .formats = {input::InputFormat::conllu}};
}

}  // namespace attnctl::study
