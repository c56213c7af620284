#include "analysis/patterns/sink_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "analysis/head_axes.hpp"

namespace attnctl::analysis {

std::uint64_t SinkWeights::memory(const model::Model& /*model*/, const input::Batch& batch) const {
  const std::uint64_t keys = batch.most_keys() * (sizeof(double) + sizeof(std::uint64_t));
  return heads_.size() * (keys + sizeof(KeySums) + batch.sequences.size() * sizeof(HeadSink));
}

void SinkWeights::begin(const model::Model& /*model*/, const input::Batch& batch) {
  states_.assign(heads_.size(), {});
  found_.clear();
  for (std::size_t input = 0; input < batch.sequences.size(); ++input) {
    for (const model::HeadId head : heads_) found_.push_back({.input = input, .head = head});
  }
}

void SinkWeights::panel(const forward::AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head || panel.pattern.cols == 0) return;
  KeySums& state = states_[*head];
  if (panel.first_query == 0) {
    keep(*head);
    state.sequence = panel.sequence;
    state.rows = 0;
    state.finite = true;
    state.uniform = 0;
    state.weights.assign(panel.pattern.cols, 0);
    state.counts.assign(panel.pattern.cols, 0);
  }
  const forward::KeyRange keys = panel.keys();
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    if (!panel.fully_masked.empty() && panel.fully_masked[r] != 0) continue;
    ++state.rows;
    const std::span<const float> weights = panel.pattern.row(r);
    const std::uint64_t of_first = state.counts.front();
    std::size_t visible = 0;
    for (std::size_t k = keys.first; k < keys.last; ++k) {
      // If the panel has no scores, a weight of 0 marks a hidden key.
      const bool hidden = panel.scores.empty()
                              ? weights[k] == 0
                              : panel.scores(r, k) == -std::numeric_limits<float>::infinity();
      if (hidden) continue;
      ++visible;
      state.finite = state.finite && std::isfinite(weights[k]);
      state.weights[k] += double{weights[k]};
      ++state.counts[k];
    }
    if (state.counts.front() > of_first) state.uniform += 1 / static_cast<double>(visible);
  }
}

/// Writes the result of the current sequence of a head, if there is one.
void SinkWeights::keep(std::size_t head) {
  const KeySums& state = states_[head];
  if (state.counts.empty()) return;
  HeadSink& found = found_[state.sequence * heads_.size() + head];
  found.rows = state.rows;
  if (!state.finite) return;
  const std::uint64_t most = std::ranges::max(state.counts);
  for (std::size_t k = 0; k < state.counts.size(); ++k) {
    if (state.counts[k] == 0) continue;
    const double alpha = state.weights[k] / static_cast<double>(state.counts[k]);
    if (k == 0) {
      found.first_weight = alpha;
      found.null_weight = state.uniform / static_cast<double>(state.counts[0]);
    }
    if (2 * state.counts[k] < most || (found.weight && alpha <= *found.weight)) continue;
    found.weight = alpha;
    found.position = k;
  }
}

std::vector<HeadSink> SinkWeights::finish() {
  for (std::size_t head = 0; head < heads_.size(); ++head) keep(head);
  states_.clear();
  return std::exchange(found_, {});
}

}  // namespace attnctl::analysis
