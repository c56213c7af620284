#include "study/measures/relations/word_patterns.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

namespace attnctl {
namespace {

/// Returns the largest value, or 0 if no value is positive.
double largest_of(std::span<const double> values) {
  std::array<double, 4> largest{};  // independent lanes, which the CPU can update in parallel
  std::size_t i = 0;
  for (; i + largest.size() <= values.size(); i += largest.size()) {
    for (std::size_t lane = 0; lane < largest.size(); ++lane)
      largest[lane] = values[i + lane] > largest[lane] ? values[i + lane] : largest[lane];
  }
  for (; i < values.size(); ++i) largest[0] = std::max(largest[0], values[i]);
  return std::max(std::max(largest[0], largest[1]), std::max(largest[2], largest[3]));
}

}  // namespace

WordPieces::WordPieces(const Sequence& sequence, std::size_t word_count) : place_of(word_count, kNone) {
  std::vector<std::uint8_t> has(word_count, 0);
  for (const auto& word : sequence.words) {
    if (word) has.at(*word) = 1;
  }
  for (const Sequence::SharedToken& shared : sequence.shared_tokens) has.at(shared.word) = 1;
  for (std::size_t word = 0; word < word_count; ++word) {
    if (has[word] == 0) continue;
    place_of[word] = words.size();
    words.push_back(word);
  }
  for (const auto& word : sequence.words) of_token.push_back(word ? place_of[*word] : places());
  for (Sequence::SharedToken shared : sequence.shared_tokens) {
    shared.word = place_of[shared.word];
    further.push_back(shared);
  }
}

void WordPatterns::begin(const StudyBlock& block, const std::function<bool(std::size_t)>& wanted) {
  const CorpusBlock& corpus = block.corpus;
  for (std::size_t i = 0; i < corpus.batch.sequences.size(); ++i) {
    const auto& annotation = corpus.annotations[i];
    const bool reads = annotation && wanted(i);
    pieces_.push_back(reads ? WordPieces(corpus.batch.sequences[i], annotation->words.size()) : WordPieces());
  }
  open_.resize(block.shape.heads.size());
}

void WordPatterns::add_row(const PatternRow& row, const WordPieces& pieces, Open& open) {
  const std::size_t stride = pieces.places() + 1;
  const auto add_to = [&](std::size_t place) {
    double* const sums = open.weights.data() + place * stride;
    for (std::size_t key = row.visible.first; key < row.visible.last; ++key)
      sums[pieces.of_token[key]] += static_cast<double>(row.weights[key]);
    for (const Sequence::SharedToken& shared : pieces.further)
      sums[shared.word] += static_cast<double>(row.weights[shared.token]);
    ++open.rows[place];
  };
  const std::size_t place = pieces.of_token[row.query];
  if (place == pieces.places()) return;
  add_to(place);
  for (const Sequence::SharedToken& shared : pieces.further) {
    if (shared.token == row.query) add_to(shared.word);
  }
}

std::optional<WordPatterns::Matrix> WordPatterns::add(const StudyPanel& panel) {
  const WordPieces& pieces = pieces_[panel.panel.sequence];
  const std::size_t places = pieces.places();
  if (places == 0) return std::nullopt;
  Open& open = open_[panel.head];
  if (panel.panel.first_query == 0) {
    std::swap(open.weights, closed_.weights);  // reuses the memory
    open.weights.assign(places * (places + 1), 0.0);
    open.rows.assign(places, 0);
  }
  for (const PatternRow& row : panel.rows) add_row(row, pieces, open);
  if (panel.panel.first_query + panel.panel.pattern.rows < pieces.of_token.size()) return std::nullopt;
  for (std::size_t place = 0; place < places; ++place) {
    if (open.rows[place] < 2) continue;
    const auto count = static_cast<double>(open.rows[place]);
    double* const row = open.weights.data() + place * (places + 1);
    std::transform(row, row + places, row, [&](double weight) { return weight / count; });
  }
  std::swap(open.weights, closed_.weights);
  return Matrix{places, closed_.weights};
}

std::size_t largest_other(std::span<const double> row, std::size_t self) {
  const double largest = std::max(largest_of(row.first(self)), largest_of(row.subspan(self + 1)));
  if (largest == 0) return WordPieces::kNone;
  std::size_t best = 0;
  while (row[best] != largest || best == self) ++best;
  return best;
}

std::span<const std::size_t> MaximumSpanningTree::find(std::span<const double> weights, std::size_t n) {
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  parent_.assign(n, 0);
  reach_.assign(n, lowest);
  left_.resize(n);
  std::iota(left_.begin(), left_.end(), std::size_t{0});
  std::size_t* const left = left_.data();
  double* const reach = reach_.data();
  for (std::size_t next = 0, count = n; count > 1;) {
    const std::size_t gone = next;
    const std::size_t joined = left[gone];
    const double* const edges = weights.data() + joined * n;
    --count;
    next = 0;
    double most = lowest;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t node = left[i] = left[i + (i >= gone ? 1 : 0)];
      const bool better = edges[node] > reach[node];
      const double best = better ? edges[node] : reach[node];
      parent_[node] = better ? joined : parent_[node];
      reach[node] = best;
      next = best > most ? i : next;
      most = best > most ? best : most;
    }
  }
  return parent_;
}

}  // namespace attnctl
