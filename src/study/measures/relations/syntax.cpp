#include "study/measures/relations/syntax.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "study/measures/measures.hpp"

namespace attnctl {
namespace {

std::string_view without_subtype(std::string_view relation) {
  return relation.substr(0, relation.find(':'));
}

/// Words and pairs of a sentence that at least one of its windows contains.
struct Found {
  std::vector<std::uint8_t> words, pairs;  // [words]; `pairs` is indexed by the dependent
};

constexpr std::array kMetrics = {
    Metric{"relation_accuracy", "share", "[0, 1]", "baseline: the best fixed offset of -5 to 5",
           "pairs of a relation in which the word that a word's row weighs most among the other words is the "
           "other one of the pair, over all pairs",
           "Clark et al. 2019; Voita et al. 2019"},
    Metric{"tree_accuracy", "share", "[0, 1]", "adjacent: every word joined to the next",
           "edges of the annotation that are in the maximum spanning tree of A + A^T over words, without "
           "direction and punctuation (UUAS)",
           "Hewitt and Manning 2019; Htut et al. 2019"},
};

}  // namespace

SyntaxMeasure::SyntaxMeasure(const StudyShape& shape)
    : shape_(shape), trees_(shape.heads.size() + SyntaxResults::kTreeBaselines) {}

void SyntaxMeasure::begin(const StudyBlock& block) {
  const CorpusBlock& corpus = block.corpus;
  const auto has_heads = [&](std::size_t sequence) {
    return std::ranges::any_of(corpus.annotations[sequence]->words,
                               [](const ConlluWord& word) { return word.head.has_value(); });
  };
  patterns_.begin(block, has_heads);
  Found found;
  for (std::size_t i = 0; i < corpus.annotations.size(); ++i) {
    plans_.emplace_back();
    const auto& annotation = corpus.annotations[i];
    if (patterns_.pieces(i).place_of.empty()) continue;
    const bool again = i > 0 && corpus.annotations[i - 1] == annotation;  // a further window
    if (!again) found = {std::vector<std::uint8_t>(annotation->words.size()), {}};
    if (!again) found.pairs = found.words;
    plan(*annotation, patterns_.pieces(i), group_of(corpus.number, i), plans_.back());
    for (const std::size_t word : patterns_.pieces(i).words) found.words[word] = 1;
    for (const Pair& pair : plans_.back().pairs) found.pairs[patterns_.pieces(i).words[pair.dependent]] = 1;
    const bool ends = i + 1 == corpus.annotations.size() || corpus.annotations[i + 1] != annotation;
    if (!ends) continue;
    ++counts_.sentences;
    for (std::size_t word = 0; word < annotation->words.size(); ++word) {
      ++counts_.words;
      if (found.words[word] == 0) ++counts_.words_without_piece;
      if (annotation->words[word].head.value_or(0) > 0 && found.pairs[word] == 0) ++counts_.pairs_left_out;
    }
  }
}

GroupScores& SyntaxMeasure::relation(std::string_view name) {
  if (shape_.fold_subtypes) name = without_subtype(name);
  const auto [place, fresh] = relations_.try_emplace(
      std::string(name), GroupScores(2 * shape_.heads.size() + SyntaxResults::kOffsets));
  return place->second;
}

void SyntaxMeasure::plan(const ConlluSentence& sentence, const WordPieces& pieces, std::size_t group,
                         Plan& plan) {
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
    if (const auto answer = SyntaxResults::offset_answer(offset))
      ++counts[1 + 2 * shape_.heads.size() + *answer];
    if (node_of[place] == WordPieces::kNone || node_of[head_place] == WordPieces::kNone) continue;
    plan.gold[node_of[place]] = node_of[head_place];
    ++edges;
    const std::size_t node = node_of[place];
    if (node_of[head_place] + 1 == node || node + 1 == node_of[head_place]) ++adjacent;
  }
  if (edges == 0) return;
  plan.trees = &trees_.group(group);
  (*plan.trees)[0] += edges;
  (*plan.trees)[1 + shape_.heads.size() + SyntaxResults::kAdjacent] += adjacent;
  plan.together.assign(plan.nodes.size() * plan.nodes.size(), 0.0);
}

void SyntaxMeasure::panel(const StudyPanel& panel) {
  const auto matrix = patterns_.add(panel);
  if (!matrix) return;
  Plan& plan = plans_[panel.panel.sequence];
  largest_.clear();
  for (std::size_t place = 0; place < matrix->places; ++place)
    largest_.push_back(largest_other(matrix->row(place), place));
  const std::size_t to_head = 1 + panel.head;
  const std::size_t to_dependent = to_head + shape_.heads.size();
  for (const Pair& pair : plan.pairs) {
    if (largest_[pair.dependent] == pair.head) ++(*pair.counts)[to_head];
    if (largest_[pair.head] == pair.dependent) ++(*pair.counts)[to_dependent];
  }
  if (plan.trees == nullptr) return;
  const std::size_t n = plan.nodes.size();
  edges_.resize(n * n);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const double weight =
          matrix->row(plan.nodes[a])[plan.nodes[b]] + matrix->row(plan.nodes[b])[plan.nodes[a]];
      edges_[a * n + b] = edges_[b * n + a] = weight;
      plan.together[a * n + b] += weight;
    }
  }
  (*plan.trees)[1 + panel.head] += hits(plan, edges_);
}

/// Returns the number of annotated edges in the maximum spanning tree.
std::uint64_t SyntaxMeasure::hits(const Plan& plan, std::span<const double> weights) {
  const std::span<const std::size_t> parent = tree_.find(weights, plan.nodes.size());
  std::uint64_t hits = 0;
  for (std::size_t node = 1; node < parent.size(); ++node) {
    if (plan.gold[node] == parent[node] || plan.gold[parent[node]] == node) ++hits;
  }
  return hits;
}

void SyntaxMeasure::end() {
  const std::size_t answer = 1 + shape_.heads.size() + SyntaxResults::kCombined;
  for (Plan& plan : plans_) {
    if (plan.trees == nullptr) continue;
    const std::size_t n = plan.nodes.size();
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < a; ++b) plan.together[b * n + a] = plan.together[a * n + b];
    }
    (*plan.trees)[answer] += hits(plan, plan.together);
  }
}

void SyntaxMeasure::merge(const Measure& other) {
  const auto& from = dynamic_cast<const SyntaxMeasure&>(other);
  counts_.sentences += from.counts_.sentences;
  counts_.words += from.counts_.words;
  counts_.words_without_piece += from.counts_.words_without_piece;
  counts_.pairs_left_out += from.counts_.pairs_left_out;
  for (const auto& [name, scores] : from.relations_) relation(name).merge(scores);
  trees_.merge(from.trees_);
}

void SyntaxMeasure::save(StateWriter& out) const {
  for (const std::uint64_t count :
       {counts_.sentences, counts_.words, counts_.words_without_piece, counts_.pairs_left_out})
    out.number(count);
  out.number(relations_.size());
  for (const auto& [name, scores] : relations_) {
    out.text(name);
    scores.save(out);
  }
  trees_.save(out);
}

void SyntaxMeasure::load(StateReader& in) {
  for (std::uint64_t* const count :
       {&counts_.sentences, &counts_.words, &counts_.words_without_piece, &counts_.pairs_left_out})
    *count = in.number();
  relations_.clear();
  for (std::size_t left = in.count(); left > 0; --left) {
    const std::string name = in.text();
    relation(name).load(in);
  }
  trees_.load(in);
}

void SyntaxMeasure::finish(StudyResults& results) const {
  if (counts_.sentences == 0) return;
  SyntaxResults found(shape_, relations_, trees_, counts_);
  if (const auto* const twin = dynamic_cast<const SyntaxMeasure*>(shuffled_twin()))
    found.compare_with(twin->relations_, twin->trees_);
  found.add_to(results);
}

std::span<const Metric> syntax_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_syntax_measure(const StudyShape& shape) {
  return std::make_unique<SyntaxMeasure>(shape);
}

}  // namespace attnctl
