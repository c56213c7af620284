#include "analysis/patterns/temperature.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "analysis/head_index.hpp"
#include "analysis/weights/normal_scores.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl {

Temperatures::Temperatures(const Selection& selection, double saturation)
    : heads_(selection.heads), saturation_(saturation) {}

std::uint64_t Temperatures::memory(const Model& /*model*/, const Batch& batch) const {
  std::uint64_t keys = 0;
  for (const Sequence& sequence : batch.sequences) keys = std::max<std::uint64_t>(keys, sequence.keys());
  return (heads_.size() + 1) * (sizeof(State) + (keys + 1) * sizeof(std::uint64_t));
}

void Temperatures::begin(const Model& /*model*/, const Batch& batch) {
  std::size_t keys = 0;
  for (const Sequence& sequence : batch.sequences) keys = std::max(keys, sequence.keys());
  State empty;
  empty.rows_by_keys.resize(keys + 1);
  states_.assign(heads_.size(), empty);
}

void Temperatures::panel(const AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head) return;
  for (std::size_t r = 0; r < panel.pattern.rows; ++r)
    add_row(states_[*head], panel.pattern.row(r), panel.scores.row(r));
}

void Temperatures::add_row(State& state, std::span<const float> pattern,
                           std::span<const float> scores) const {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  std::size_t keys = 0;
  double sum = 0;
  for (const float score : scores) {
    if (score == hidden) continue;
    sum += static_cast<double>(score);
    ++keys;
  }
  if (keys < 2) return;
  if (!std::isfinite(sum)) {
    state.finite = false;
    return;
  }
  const double mean = sum / static_cast<double>(keys);
  float largest = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] == hidden) continue;
    const double deviation = static_cast<double>(scores[j]) - mean;
    state.squared_deviations += deviation * deviation;
    largest = std::max(largest, pattern[j]);
  }
  state.freedom += static_cast<double>(keys - 1);
  state.entropy -= kernels().sum_x_log_x(pattern);
  if (static_cast<double>(largest) > saturation_) ++state.saturated;
  ++state.rows_by_keys[keys];
  ++state.rows;
}

std::vector<HeadTemperature> Temperatures::finish(Pool& pool) const {
  std::vector<HeadTemperature> result(heads_.size());
  pool.run(heads_.size(), [&](std::size_t i, std::size_t /*worker*/) {
    const State& state = states_[i];
    HeadTemperature& head = result[i];
    head.head = heads_[i];
    head.rows = state.rows;
    if (!state.finite || state.rows == 0) return;
    const auto rows = static_cast<double>(state.rows);
    head.score_variance = state.squared_deviations / state.freedom;
    head.entropy = std::max(0.0, state.entropy / rows);
    head.temperature = temperature_of_entropy(*head.entropy, state.rows_by_keys);
    head.saturated = static_cast<double>(state.saturated) / rows;
  });
  return result;
}

}  // namespace attnctl
