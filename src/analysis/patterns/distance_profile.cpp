#include "analysis/patterns/distance_profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "analysis/head_axes.hpp"
#include "base/error.hpp"

namespace attnctl::analysis {

std::vector<DistanceBin> distance_bins(std::size_t n) {
  std::vector<DistanceBin> bins;
  if (n == 0) return bins;
  bins.push_back({0, 0});
  for (std::size_t last = 1; bins.back().last + 1 < n; last *= 2)
    bins.push_back({bins.back().last + 1, last});
  return bins;
}

std::uint64_t DistanceProfile::memory(const model::Model& model, const input::Batch& batch) const {
  constexpr std::uint64_t of_head =
      sizeof(HeadDistances) + sizeof(ValueNorms) + 64 * (sizeof(DistanceBin) + sizeof(DistanceSums));
  return heads_.size() * of_head + value_norms_bytes(model, batch, heads_);
}

void DistanceProfile::begin(const model::Model& model, const input::Batch& batch) {
  for (const input::Sequence& sequence : batch.sequences)
    if (sequence.key_embeddings.rows() > 0)
      fail(Status::bad_input,
           "input {}: distances need queries and keys that are the same tokens, but the input has "
           "separate keys",
           escaped(sequence.id));
  bins_ = distance_bins(batch.most_keys());
  bin_of_.clear();
  for (std::size_t bin = 0; bin < bins_.size(); ++bin)
    bin_of_.resize(bins_[bin].last + 1, static_cast<std::uint8_t>(bin));
  sums_.clear();
  norms_.clear();
  for (const model::HeadId head : heads_) {
    sums_.push_back({.head = head, .bins = std::vector<DistanceSums>(bins_.size())});
    norms_.emplace_back(model, head);
  }
}

void DistanceProfile::panel(const forward::AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head) return;
  HeadDistances& sums = sums_[*head];
  ValueNorms& norms = norms_[*head];
  if (panel.first_query == 0 && !panel.v.empty()) {
    sums.has_values = true;
    norms.compute(panel.v);
    for (double& value : norms.norms()) value = std::max(0.0, value);  // NaN becomes 0
  }
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    if (!panel.fully_masked.empty() && panel.fully_masked[r] != 0) continue;
    add_row(sums, norms.norms(), panel.pattern.row(r), panel.scores.row(r), panel.first_query + r);
  }
}

void DistanceProfile::add_row(HeadDistances& sums, std::span<const double> norms,
                              std::span<const float> pattern, std::span<const float> scores,
                              std::size_t query) const {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  const std::size_t visible = scores.size() - static_cast<std::size_t>(std::ranges::count(scores, hidden));
  const double even = 1 / static_cast<double>(visible);
  double total = 0;
  for (std::size_t j = 0; j < pattern.size(); ++j) {
    if (scores[j] == hidden) continue;
    DistanceSums& bin = sums.bins[bin_of_[j < query ? query - j : j - query]];
    const auto weight = static_cast<double>(pattern[j]);
    ++bin.pairs;
    bin.weight += weight;
    bin.uniform += even;
    const double influence = sums.has_values ? weight * norms[j] : 0;
    bin.influence += influence;
    total += weight + influence;
  }
  if (!std::isfinite(total)) sums.finite = false;
  ++sums.rows;
}

}  // namespace attnctl::analysis
