#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <variant>

#include "base/error.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
constexpr Definition kKindsColumns[] = {
    {"kind", "", "", "", "kind of attention (--kinds), or axial (--grid)"},
    {"flops", "FLOPs", "", "",
     "cost of scores and weighted values (linear: of the state), all heads and inputs"},
    {"pattern_bytes", "bytes", "", "",
     "size of the float32 weights of visible keys, all heads and inputs; linear: 0"},
    {"kv_bytes_per_token", "bytes", "", "", "size of the key/value cache of the layer per token; linear: 0"},
    {"state_bytes", "bytes", "", "", "size of the state of linear attention, for any number of tokens"},
    {"total_variation", "", "[0, 1]", "", "half the sum of |a - a_full| over a row, mean over rows"},
    {"output_error", "", "[0, inf)", "", "|y - y_full| / |y_full| of the attention output y"},
};

namespace {

/// Observes one layer. If `full` is null, stores the patterns and outputs. Otherwise, compares them with
/// those that `full` stored.
class LayerWatch final : public forward::Observer {
 public:
  LayerWatch(std::size_t layer, const LayerWatch* full) : layer_(layer), full_(full) {}

  [[nodiscard]] forward::Needs needs() const override { return {.scores = true, .output = true}; }
  void begin(const model::Model& model, const input::Batch& batch) override {
    const std::size_t heads = model.config().layers.at(layer_).attention.heads;
    visible_.assign(heads, 0);
    rows_.assign(heads, 0);
    variation_.assign(heads, 0.0);
    outputs_.resize(batch.sequences.size());
    if (full_ != nullptr) return;
    for (const input::Sequence& sequence : batch.sequences)
      patterns_.emplace_back(heads, OwnedMatrix<float>(sequence.queries(), sequence.keys()));
  }

  void panel(const forward::AttentionPanel& panel) override {
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      const std::size_t query = panel.first_query + r;
      const auto weights = panel.pattern.row(r);
      for (const float score : panel.scores.row(r))
        visible_[panel.head] += score == -std::numeric_limits<float>::infinity() ? 0 : 1;
      if (full_ == nullptr) {
        std::ranges::copy(weights, patterns_[panel.sequence][panel.head].view().row(query).begin());
        continue;
      }
      const auto want = full_->patterns_[panel.sequence][panel.head].view().row(query);
      if (std::ranges::all_of(want, [](float weight) { return weight == 0; })) continue;  // no visible key
      double sum = 0;
      for (std::size_t j = 0; j < weights.size(); ++j) sum += std::abs(double{weights[j]} - double{want[j]});
      variation_[panel.head] += sum / 2;
      ++rows_[panel.head];
    }
  }

  void output(std::size_t sequence, std::size_t /*layer*/, MatrixView<const float> values) override {
    if (full_ == nullptr) outputs_[sequence] = OwnedMatrix<float>(values.rows, values.cols);
    for (std::size_t r = 0; r < values.rows; ++r) {
      const auto row = values.row(r);
      if (full_ == nullptr) {
        std::ranges::copy(row, outputs_[sequence].view().row(r).begin());
        continue;
      }
      const auto want = full_->outputs_[sequence].view().row(r);
      for (std::size_t c = 0; c < row.size(); ++c) {
        const double difference = double{row[c]} - double{want[c]};
        squares_ += difference * difference;
        full_squares_ += double{want[c]} * double{want[c]};
      }
    }
  }

  [[nodiscard]] std::uint64_t visible() const {
    return std::accumulate(visible_.begin(), visible_.end(), std::uint64_t{0});
  }
  [[nodiscard]] Cell total_variation() const {
    const std::uint64_t rows = std::accumulate(rows_.begin(), rows_.end(), std::uint64_t{0});
    const double sum = std::accumulate(variation_.begin(), variation_.end(), 0.0);
    return rows == 0 ? Cell() : Cell(sum / static_cast<double>(rows));
  }
  [[nodiscard]] Cell output_error() const {
    return full_squares_ > 0 ? Cell(std::sqrt(squares_ / full_squares_)) : Cell();
  }

 private:
  std::size_t layer_;
  const LayerWatch* full_;
  std::vector<std::vector<OwnedMatrix<float>>> patterns_;  // [sequences][heads]
  std::vector<OwnedMatrix<float>> outputs_;                // [sequences]; empty matrices without W_V
  std::vector<std::uint64_t> visible_, rows_;  // per head, because heads are processed in parallel
  std::vector<double> variation_;
  double squares_ = 0, full_squares_ = 0;
};

}  // namespace

ExperimentResult kinds_experiment(const model::Model& model, const input::Batch& batch,
                                  const KindsOptions& options, forward::RunContext& context) {
  const model::AttentionConfig layer = model.config().layers.at(options.layer).attention;
  forward::Selection selection;
  for (std::size_t head = 0; head < layer.heads; ++head) selection.heads.push_back({options.layer, head});
  const std::uint64_t most = options.memory == 0 ? std::uint64_t{4} << 30U : options.memory;
  const auto element = static_cast<double>(sizeof(float) * layer.heads);
  double bytes = 0;  // size of the patterns of full attention, over all heads and sequences
  for (const input::Sequence& sequence : batch.sequences)
    bytes += element * static_cast<double>(sequence.queries()) * static_cast<double>(sequence.keys());
  if (bytes > static_cast<double>(most)) {
    fail(Status::limit,
         "the patterns of full attention take {:.3g} bytes, the limit is {}; give a shorter input or a "
         "larger --memory",
         bytes, most);
  }
  const auto run = [&](const model::AttentionKind& kind, LayerWatch& watch) {
    forward::Observer* const observers[] = {&watch};
    forward::run_forward(model.with_attention(kind, {&options.layer, 1}), batch, selection, observers,
                         context);
  };
  LayerWatch full(options.layer, nullptr);
  run({}, full);

  CellRows rows;
  // Adds a row: the costs of `visible` query-key pairs (counted over all heads), and the cache bytes per
  // token.
  const auto add_row = [&](std::string kind, std::uint64_t visible) -> std::vector<Cell>& {
    const std::uint64_t width = layer.d_head + layer.d_value;
    rows.push_back({std::move(kind), count_cell(2 * visible * width), count_cell(sizeof(float) * visible),
                    count_cell(sizeof(float) * layer.kv_heads * width), Cell(), Cell(), Cell()});
    return rows.back();
  };
  for (const model::AttentionKind& kind : options.kinds) {
    LayerWatch watch(options.layer, &full);
    run(kind, watch);
    std::vector<Cell>& row = add_row(to_string(kind), watch.visible());
    if (kind.rule == model::AttentionKind::Rule::linear) {
      // Linear attention adds each key to a state and multiplies each query by the state.
      const std::uint64_t state = layer.d_head * layer.d_value + layer.d_head;  // elements per head
      std::uint64_t operations = 0;
      for (const input::Sequence& sequence : batch.sequences)
        operations += 2 * state * (sequence.keys() * layer.kv_heads + sequence.queries() * layer.heads);
      row[1] = count_cell(operations);
      row[2] = row[3] = count_cell(0);
      row[4] = count_cell(sizeof(float) * layer.kv_heads * state);
    }
    row[5] = watch.total_variation();
    row[6] = watch.output_error();
  }
  if (options.grid) {
    const bool causal = batch.sequences.front().causal.value_or(layer.causal);
    const auto pairs_of = [causal](std::uint64_t n) { return causal ? n * (n + 1) / 2 : n * n; };
    const auto [grid_rows, grid_columns] = *options.grid;
    add_row("axial", layer.heads * (grid_columns * pairs_of(grid_rows) + grid_rows * pairs_of(grid_columns)));
  }
  ExperimentResult result{.name = "kinds", .x = "kind"};
  const std::vector<Cell>* closest = nullptr;
  const Cell full_bytes = count_cell(sizeof(float) * full.visible());
  for (const std::vector<Cell>& row : rows) {
    const double* distance = std::get_if<double>(&row[5]);
    if (distance == nullptr || (*distance == 0 && row[2] == full_bytes)) continue;  // equals full attention
    if (closest == nullptr || *distance < std::get<double>((*closest)[5])) closest = &row;
  }
  if (closest != nullptr) result.summary.set("closest_to_full", (*closest)[0]);
  result.conclusion = fmt::format("Closest to full attention by total variation: {}.",
                                  closest != nullptr ? std::get<std::string>((*closest)[0]) : "no kind");
  result.add_chart("Scores and values", {"flops"}, "FLOPs", Drawing::bars);
  result.add_chart("Memory of the patterns", {"pattern_bytes"}, "Bytes", Drawing::bars);
  result.add_chart("Distance to full attention", {"total_variation", "output_error"}, "Distance",
                   Drawing::bars);
  result.rows = make_table("rows", {std::begin(kKindsColumns), std::end(kKindsColumns)}, std::move(rows));
  return result;
}

}  // namespace attnctl::textbook
