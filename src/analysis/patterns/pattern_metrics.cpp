#include "analysis/patterns/pattern_metrics.hpp"

#include <cmath>
#include <numbers>

#include "analysis/head_axes.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

std::vector<std::size_t> positions(std::span<const std::uint8_t> flags) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) result.push_back(i);
  }
  return result;
}

/// Returns the weights without the zeros at the end. In causal patterns, weights after the diagonal are 0.
std::span<const float> without_trailing_zeros(std::span<const float> weights) {
  std::size_t end = weights.size();
  constexpr std::size_t step = 32;
  const auto all_zero = [&](std::size_t first) {
    bool any = false;
    for (std::size_t l = 0; l < step; ++l) any |= weights[first + l] != 0;
    return !any;
  };
  while (end >= step && all_zero(end - step)) end -= step;
  while (end > 0 && weights[end - 1] == 0) --end;
  return weights.first(end);
}

std::optional<double> weight_at(const PatternRow& row, std::ptrdiff_t offset) {
  if (row.marks->over_another) return std::nullopt;
  const auto key = static_cast<std::ptrdiff_t>(row.query) + offset;
  if (key < 0 || key >= static_cast<std::ptrdiff_t>(row.weights.size())) return std::nullopt;
  return static_cast<double>(row.weights[static_cast<std::size_t>(key)]);
}

std::optional<double> confidence(const PatternRow& row) {
  const SequenceMarks& marks = *row.marks;
  if (row.query < marks.end_queries.size() && marks.end_queries[row.query] != 0) return std::nullopt;
  if (marks.end_keys.empty()) return static_cast<double>(row.largest);
  if (marks.end_keys.size() >= row.weights.size()) return std::nullopt;
  if (row.largest > 0 && !std::ranges::binary_search(marks.end_keys, row.argmax))
    return static_cast<double>(row.largest);
  float top = 0;
  std::size_t first = row.visible.first;
  const auto take = [&](std::size_t end) {
    for (; first < end; ++first) top = top < row.weights[first] ? row.weights[first] : top;
    first = std::max(first, end + 1);
  };
  for (const std::size_t end : marks.end_keys) take(std::min(end, row.visible.last));
  take(row.visible.last);
  return static_cast<double>(top);
}

std::optional<double> special_token(const PatternRow& row) {
  double sum = 0;
  for (const std::size_t key : row.marks->special_keys) sum += static_cast<double>(row.weights[key]);
  return sum;
}

constexpr auto kRowMetrics = std::to_array<RowMetric>({
    {{"entropy", "nats", "[0, ln keys]", "ln keys for even weights",
      "mean entropy of the weights w of a query, -sum w ln w", "Clark et al. 2019, section 3.3"},
     [](const PatternRow& row) { return std::optional(row.entropy); }},
    {{"entropy_bits", "bits", "[0, log2 keys]", "log2 keys for even weights", "entropy / ln 2",
      "Clark et al. 2019, section 3.3"},
     [](const PatternRow& row) { return std::optional(row.entropy / std::numbers::ln2); },
     false},
    {{"confidence", "", "[0, 1]", "1 / keys for even weights",
      "mean largest weight of a query; queries and keys that are EOS or [SEP] are left out, and the weights "
      "of the other keys are not rescaled",
      "Voita et al. 2019"},
     confidence},
    {{"distance", "tokens", "[0, keys - 1]", "mean of abs(i - j) for even weights",
      "mean over rows of sum a_ij abs(i - j)", "Clark et al. 2019; Vig and Belinkov 2019"},
     [](const PatternRow& row) { return std::optional(row.distance); }},
    {{"signed_distance", "tokens", "[-(queries - 1), keys - 1]", "mean of j - i for even weights",
      "mean over rows of sum a_ij (j - i): negative looks back", "Vig and Belinkov 2019, signed"},
     [](const PatternRow& row) { return std::optional(row.signed_distance); },
     false},
    {{"self", "", "[0, 1]", "1 / keys for even weights", "mean of a_ii over the rows that have key i",
      "Clark et al. 2019, section 3.1"},
     [](const PatternRow& row) { return weight_at(row, 0); }},
    {{"previous_token", "", "[0, 1]", "1 / keys for even weights",
      "mean of a_i,i-1 over the rows that have key i-1", "Clark et al. 2019, section 3.1"},
     [](const PatternRow& row) { return weight_at(row, -1); }},
    {{"next_token", "", "[0, 1]", "1 / keys for even weights; 0 under a causal mask",
      "mean of a_i,i+1 over the rows that have key i+1", "Clark et al. 2019, section 3.1"},
     [](const PatternRow& row) { return weight_at(row, 1); }},
    {{"first_token", "", "[0, 1]", "1 / keys for even weights", "mean of a_i0", "Xiao et al. 2023"},
     [](const PatternRow& row) { return std::optional(static_cast<double>(row.weights.front())); }},
    {{"special_token", "", "[0, 1]", "special keys / keys for even weights",
      "mean over rows of the weight on all special tokens together ([CLS], [SEP], BOS, EOS, PAD, ...); 0 "
      "where the input has none",
      "Clark et al. 2019, section 3.2"},
     special_token},
});

}  // namespace

SequenceMarks marks_of(const forward::Sides& sides) {
  SequenceMarks marks;
  marks.end_queries = sides.queries_of.separator;
  marks.over_another = &sides.queries_of != &sides.keys_of;
  if (sides.keys_of.key_embeddings.rows() > 0) return marks;
  marks.special_keys = positions(sides.keys_of.special);
  marks.end_keys = positions(sides.keys_of.separator);
  return marks;
}

PatternRow::PatternRow(std::span<const float> row_weights, forward::KeyRange row_visible,
                       std::size_t row_query, const SequenceMarks& row_marks)
    : weights(row_weights), visible(row_visible), query(row_query), marks(&row_marks) {
  const auto seen = without_trailing_zeros(weights.subspan(visible.first, visible.size()));
  const auto offset = static_cast<std::ptrdiff_t>(visible.first) - static_cast<std::ptrdiff_t>(query);
  const linalg::WeightMoments moments = linalg::kernels().weight_moments(seen, offset);
  total = moments.total;
  distance = moments.distance;
  signed_distance = moments.signed_distance;
  largest = moments.largest;
  const auto found = static_cast<std::size_t>(std::find(seen.begin(), seen.end(), largest) - seen.begin());
  argmax = largest > 0 ? visible.first + found : 0;
  entropy = std::max(0.0, -linalg::kernels().sum_x_log_x(seen));
}

std::span<const RowMetric> row_metrics() {
  return kRowMetrics;
}

std::uint64_t PatternMetrics::memory(const model::Model& /*model*/, const input::Batch& batch) const {
  const std::uint64_t records = per_input_ ? batch.sequences.size() : 1;
  const std::uint64_t record = sizeof(MetricSums) + sizeof(HeadPatternMetrics) +
                               row_metrics().size() * (sizeof(Mean) + sizeof(std::optional<double>));
  std::uint64_t bytes = records * heads_.size() * record;
  for (const input::Sequence& sequence : batch.sequences)
    bytes += 2 * sequence.keys() * sizeof(std::size_t);  // key positions of SequenceMarks
  return bytes;
}

void PatternMetrics::begin(const model::Model& model, const input::Batch& batch) {
  components_.clear();
  for (const model::LayerConfig& layer : model.config().layers) components_.push_back(layer.component);
  marks_.clear();
  for (const model::HeadId head : heads_) {
    const model::Component component = components_.at(head.layer);
    for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
      if (!marks_.contains({s, component}))
        marks_.emplace(std::pair(s, component), marks_of(forward::sides_of(component, batch.sequences[s])));
    }
  }
  const std::size_t records = per_input_ ? batch.sequences.size() : 1;
  states_.assign(records * heads_.size(), {});
  for (MetricSums& state : states_) state.means.resize(row_metrics().size());
}

void PatternMetrics::panel(const forward::AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head || panel.pattern.cols == 0) return;
  const SequenceMarks& marks = marks_.at({panel.sequence, components_[panel.layer]});
  MetricSums& state = states_[(per_input_ ? panel.sequence * heads_.size() : 0) + *head];
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    if (!panel.fully_masked.empty() && panel.fully_masked[r] != 0) continue;
    add(state, PatternRow(panel.pattern.row(r), panel.keys(), panel.first_query + r, marks));
  }
}

void PatternMetrics::add(MetricSums& state, const PatternRow& row) const {
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
    const MetricSums& state = states_[i];
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
      if (components_.at(metrics.head.layer) != model::Component::cross)
        metrics.best_offset_share = static_cast<double>(most) / static_cast<double>(state.rows);
    }
    result.push_back(std::move(metrics));
  }
  return result;
}

}  // namespace attnctl::analysis
