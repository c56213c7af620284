#include "study/measures/relations.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "base/numbers.hpp"

namespace attnctl::study {
namespace {

/// Returns the largest value, or 0 if no value is positive.
double largest_of(std::span<const double> values) {
  std::array<double, 4> largest{};  // four independent maxima, which the CPU updates in parallel
  std::size_t i = 0;
  for (; i + largest.size() <= values.size(); i += largest.size()) {
    for (std::size_t lane = 0; lane < largest.size(); ++lane)
      largest[lane] = values[i + lane] > largest[lane] ? values[i + lane] : largest[lane];
  }
  for (; i < values.size(); ++i) largest[0] = std::max(largest[0], values[i]);
  return std::max(std::max(largest[0], largest[1]), std::max(largest[2], largest[3]));
}

}  // namespace

WordPieces::WordPieces(const input::Sequence& sequence, std::size_t words_of_annotation)
    : place_of(words_of_annotation, kNone) {
  std::set<std::size_t> found;
  for (const auto& word : sequence.words) {
    if (word) found.insert(*word);
  }
  for (const input::Sequence::SharedToken& shared : sequence.shared_tokens) found.insert(shared.word);
  words.assign(found.begin(), found.end());
  for (std::size_t place = 0; place < words.size(); ++place) place_of.at(words[place]) = place;
  for (const auto& word : sequence.words) of_token.push_back(word ? place_of[*word] : places());
  for (input::Sequence::SharedToken shared : sequence.shared_tokens) {
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

MatrixView<const double> WordPatterns::add(const StudyPanel& panel) {
  const WordPieces& pieces = pieces_[panel.panel.sequence];
  const std::size_t places = pieces.places();
  if (places == 0) return {};
  OpenPattern& open = open_[panel.head];
  if (panel.panel.first_query == 0) {
    std::swap(open.weights, closed_);  // reuses the memory
    open.weights.assign(places * (places + 1), 0.0);
    open.rows.assign(places, 0);
  }
  const auto add_to = [&](std::size_t place, const analysis::PatternRow& row) {
    double* const sums = open.weights.data() + place * (places + 1);
    for (std::size_t key = row.visible.first; key < row.visible.last; ++key)
      sums[pieces.of_token[key]] += static_cast<double>(row.weights[key]);
    for (const input::Sequence::SharedToken& shared : pieces.further)
      sums[shared.word] += static_cast<double>(row.weights[shared.token]);
    ++open.rows[place];
  };
  for (const analysis::PatternRow& row : panel.rows) {
    const std::size_t place = pieces.of_token[row.query];
    if (place == places) continue;
    add_to(place, row);
    for (const input::Sequence::SharedToken& shared : pieces.further) {
      if (shared.token == row.query) add_to(shared.word, row);
    }
  }
  if (panel.panel.first_query + panel.panel.pattern.rows < pieces.of_token.size()) return {};
  for (std::size_t place = 0; place < places; ++place) {
    if (open.rows[place] < 2) continue;
    const auto count = static_cast<double>(open.rows[place]);
    double* const row = open.weights.data() + place * (places + 1);
    std::transform(row, row + places, row, [&](double weight) { return weight / count; });
  }
  std::swap(open.weights, closed_);
  return {closed_.data(), places, places, places + 1};
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

std::size_t group_of(std::uint64_t block, std::size_t sequence) {
  constexpr std::size_t run = 8;
  const std::uint64_t drawn = Random(block, sequence / run).next() % (kGroups / 2);
  return static_cast<std::size_t>(drawn) + (block % 2 == 0 ? 0 : kGroups / 2);
}

std::optional<std::size_t> GroupScores::best(std::size_t first, std::size_t count) const {
  if (asked(kEvenBlocks) == 0 || count == 0) return std::nullopt;
  std::vector<std::uint64_t> hits;
  for (std::size_t answer = first; answer < first + count; ++answer)
    hits.push_back(right(answer, kEvenBlocks));
  return first + static_cast<std::size_t>(std::ranges::max_element(hits) - hits.begin());
}

std::optional<ShareEstimate> GroupScores::estimate(std::size_t answer, Half half,
                                                   std::optional<ScoredBaseline> less) const {
  ShareEstimate found{.count = asked(half)};
  double sum = 0;
  const auto right_in = [&](const std::vector<std::uint64_t>& counts) {
    const auto hits = static_cast<double>(counts[1 + answer]);
    return less ? hits - static_cast<double>(counts[1 + less->answer]) / less->scale : hits;
  };
  for (const auto& [number, counts] : groups_) {
    if (number < half.first || number >= half.last || counts[0] == 0) continue;
    ++found.clusters;
    sum += right_in(counts);
  }
  if (found.clusters < 2) return std::nullopt;
  found.share = sum / static_cast<double>(found.count);
  double residual = 0;
  for (const auto& [number, counts] : groups_) {
    if (number < half.first || number >= half.last) continue;
    const double rest = right_in(counts) - found.share * static_cast<double>(counts[0]);
    residual += rest * rest;
  }
  found.error = cluster_error(residual, found.count, found.clusters);
  return found;
}

RoleEvidence held_out_evidence(std::size_t head, std::string_view role, std::string detail,
                               const GroupScores& scores, std::size_t answer, ScoredBaseline baseline) {
  auto null = scores.accuracy(baseline.answer, kOddBlocks);
  if (null) *null /= baseline.scale;
  return {.head = head,
          .role = role,
          .detail = std::move(detail),
          .score = scores.accuracy(answer, kOddBlocks),
          .null = null,
          .estimate = scores.estimate(answer, kOddBlocks),
          .count = scores.asked(kOddBlocks),
          .excess = scores.estimate(answer, kOddBlocks, baseline)};
}

}  // namespace attnctl::study
