#include "analysis/patterns/pattern_metrics.hpp"

#include <cmath>
#include <utility>

#include "analysis/head_axes.hpp"

namespace attnctl {

PatternMetrics::PatternMetrics(const Selection& selection, bool per_input)
    : heads_(selection.heads), per_input_(per_input) {}

std::uint64_t PatternMetrics::memory(const Model& /*model*/, const Batch& batch) const {
  const std::uint64_t records = per_input_ ? batch.sequences.size() : 1;
  const std::uint64_t record = sizeof(State) + sizeof(HeadPatternMetrics) +
                               row_metrics().size() * (sizeof(Mean) + sizeof(std::optional<double>));
  std::uint64_t bytes = records * heads_.size() * record;
  for (const Sequence& sequence : batch.sequences)
    bytes += 2 * sequence.keys() * sizeof(std::size_t);  // key positions of SequenceMarks
  return bytes;
}

void PatternMetrics::begin(const Model& model, const Batch& batch) {
  components_.clear();
  for (const LayerConfig& layer : model.config().layers) components_.push_back(layer.component);
  marks_.clear();
  for (const HeadId head : heads_) {
    const Component component = components_.at(head.layer);
    for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
      if (!marks_.contains({s, component}))
        marks_.emplace(std::pair(s, component), marks_of(sides_of(component, batch.sequences[s])));
    }
  }
  const std::size_t records = per_input_ ? batch.sequences.size() : 1;
  states_.assign(records * heads_.size(), {});
  for (State& state : states_) state.means.resize(row_metrics().size());
}

void PatternMetrics::panel(const AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head || panel.pattern.cols == 0) return;
  const SequenceMarks& marks = marks_.at({panel.sequence, components_[panel.layer]});
  State& state = states_[(per_input_ ? panel.sequence * heads_.size() : 0) + *head];
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    if (!panel.fully_masked.empty() && panel.fully_masked[r] != 0) continue;
    add(state, PatternRow(panel.pattern.row(r), panel.keys(), panel.first_query + r, marks));
  }
}

void PatternMetrics::add(State& state, const PatternRow& row) const {
  ++state.rows;
  if (!std::isfinite(row.distance)) {
    state.finite = false;
    return;
  }
  const auto metrics = row_metrics();
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (const auto value = metrics[i].value(row)) {
      state.means[i].sum.add(*value);
      ++state.means[i].count;
    }
  }
  state.peaks.add(row);
}

std::vector<HeadPatternMetrics> PatternMetrics::finish() const {
  std::vector<HeadPatternMetrics> result;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    HeadPatternMetrics metrics;
    metrics.head = heads_[i % heads_.size()];
    metrics.rows = state.rows;
    if (per_input_) metrics.input = i / heads_.size();
    metrics.means.resize(state.means.size());
    if (state.finite && state.rows > 0) {
      for (std::size_t k = 0; k < state.means.size(); ++k) {
        const Mean& mean = state.means[k];
        if (mean.count > 0) metrics.means[k] = mean.sum.value() / static_cast<double>(mean.count);
      }
      metrics.best_offset = state.peaks.best();
      const std::uint64_t most = metrics.best_offset ? state.peaks.at(*metrics.best_offset) : 0;
      if (!over_another(metrics.head))
        metrics.best_offset_share = static_cast<double>(most) / static_cast<double>(state.rows);
    }
    result.push_back(std::move(metrics));
  }
  return result;
}

}  // namespace attnctl
