#include "study/measure.hpp"

// The measure `rollout`: attention rollout to special tokens and position 0.
namespace attnctl::study {
namespace {

constexpr auto kRolloutDefinitions = std::to_array<Definition>({
    {"rollout.mass", "", "[0, 1]", "uniform: rollout of uniform attention over the visible keys",
     "mean attention rollout from the queries of this layer to the special token, or to position 0, over the "
     "rows from which rollout of uniform attention reaches it",
     "Abnar and Zuidema 2020"},
});

// A' = 0.5 A + 0.5 I, where A is the mean pattern of the heads. Each row of A' is divided by its sum.
constexpr double kResidual = 0.5;

/// The rollout of one sequence through the layers before the open layer, whose patterns are being added. The
/// rollout matrix R [n, n] is the product of the matrices A' of these layers. Only R T is needed, where each
/// target is a column of T with 1 at its positions. Because (A' R) T = A' (R T), no [n, n] matrix is stored.
struct SequenceRollout {
  /// The targets and their columns in T. Targets at the same positions share a column.
  std::vector<std::pair<std::int64_t, std::size_t>> targets;
  std::size_t columns = 0;
  /// [n, columns], R T of the layers before the open layer; `uniform` is for uniform attention.
  std::vector<double> mass, uniform;
  std::vector<double> sums;    // [n, columns], sum over the heads of the open layer of weights times mass
  std::vector<double> totals;  // [n], sum of the weights of all heads of the open layer
  std::size_t layer = 0;       // index of the open layer
  bool complete = true;        // false if a row with non-finite weights was left out

  SequenceRollout(const PositionsOf& positions, std::size_t n) : totals(n) {
    std::vector<std::vector<std::size_t>> distinct;
    for (const auto& [id, of_target] : positions) {
      const auto same = std::ranges::find(distinct, of_target);
      targets.emplace_back(id, static_cast<std::size_t>(same - distinct.begin()));
      if (same == distinct.end()) distinct.push_back(of_target);
    }
    columns = distinct.size();
    mass.resize(n * columns);
    for (std::size_t c = 0; c < columns; ++c) {
      for (const std::size_t key : distinct[c]) mass[key * columns + c] = 1;
    }
    uniform = mass;
    sums.assign(mass.size(), 0);
  }

  void add(const analysis::PatternRow& row) {
    totals[row.query] += row.total;
    // Adds up to four columns at once, because most sequences have few columns.
    std::size_t c = 0;
    for (; c + 4 <= columns; c += 4) add_columns<4>(row, c);
    if (columns - c == 3) return add_columns<3>(row, c);
    if (columns - c == 2) return add_columns<2>(row, c);
    if (columns - c == 1) return add_columns<1>(row, c);
  }

  void close_layer(std::size_t heads, const forward::VisibleKeys& visible) {
    const double share = (1 - kResidual) / static_cast<double>(heads);
    for (std::size_t i = 0; i < mass.size(); ++i)
      mass[i] = (share * sums[i] + kResidual * mass[i]) / (share * totals[i / columns] + kResidual);
    std::ranges::fill(sums, 0);
    std::ranges::fill(totals, 0);
    add_uniform_layer(visible);
    ++layer;
  }

 private:
  template <std::size_t together>
  void add_columns(const analysis::PatternRow& row, std::size_t first) {
    std::array<double, together> sum{};
    const double* from = mass.data() + row.visible.first * columns + first;
    for (const float each : row.weights.subspan(row.visible.first, row.visible.size())) {
      const auto weight = static_cast<double>(each);
      for (std::size_t i = 0; i < together; ++i) sum[i] += weight * from[i];
      from += columns;
    }
    double* const to = sums.data() + row.query * columns + first;
    for (std::size_t i = 0; i < together; ++i) to[i] += sum[i];
  }

  void add_uniform_layer(const forward::VisibleKeys& visible) {
    const std::size_t n = totals.size();
    std::vector<double> next = uniform;
    std::vector<double> sum(columns);
    bool of_all = false;  // true if `sum` covers all keys; rows that see all keys reuse `sum`
    for (std::size_t i = 0; i < n; ++i) {
      if (visible.count(i) == 0) continue;  // the token keeps its own mass
      if (!of_all || visible.count(i) < n) {
        std::ranges::fill(sum, 0);
        for (std::size_t j = 0; j < n; ++j) {
          if (!visible.shows(i, j)) continue;
          for (std::size_t t = 0; t < columns; ++t) sum[t] += uniform[j * columns + t];
        }
        of_all = visible.count(i) == n;
      }
      for (std::size_t t = 0; t < columns; ++t) {
        next[i * columns + t] = (1 - kResidual) * sum[t] / static_cast<double>(visible.count(i)) +
                                kResidual * uniform[i * columns + t];
      }
    }
    uniform = std::move(next);
  }
};

/// A layer whose heads are all selected. The rollout of a layer needs all layers before it.
struct WholeLayer {
  std::size_t index = 0;   // index in the model
  std::size_t number = 0;  // index in its component
  std::size_t heads = 0;
};

class RolloutMeasure final : public PartsMeasure<RolloutMeasure> {
 public:
  using PartsMeasure::PartsMeasure;

  void begin(const StudyBlock& block) override {
    block_ = &block;
    for (const StudyHead& head : shape_.heads) {
      if (layers_.empty() || layers_.back().index != head.id.layer)
        layers_.push_back({head.id.layer, head.layer, 0});
      ++layers_.back().heads;
    }
    std::size_t whole = 0;
    while (whole < layers_.size() && layers_[whole].number == whole &&
           layers_[whole].heads == block.model.config().layers.at(layers_[whole].index).attention.heads)
      ++whole;
    layers_.resize(whole);
    for (const input::Sequence& sequence : block.corpus.batch.sequences)
      sequences_.emplace_back(special_targets(sequence, names_), sequence.queries());
  }
  void panel(const StudyPanel& panel) override {
    const auto layer = std::ranges::find(layers_, panel.panel.layer, &WholeLayer::index);
    if (layer == layers_.end()) return;
    close_layers(panel.panel.sequence, static_cast<std::size_t>(layer - layers_.begin()));
    SequenceRollout& sequence = sequences_[panel.panel.sequence];
    const auto masked = std::ranges::count_if(panel.panel.fully_masked, [](auto each) { return each != 0; });
    if (panel.rows.size() + static_cast<std::size_t>(masked) != panel.panel.pattern.rows)
      sequence.complete = false;
    for (const analysis::PatternRow& row : panel.rows) sequence.add(row);
  }
  void end() override {
    for (std::size_t s = 0; s < sequences_.size(); ++s) close_layers(s, layers_.size());
  }
  auto parts() { return std::tie(names_, sums_); }
  void finish(StudyResults& results) const override {
    std::vector<std::vector<Cell>> rows;
    for (const auto& [key, sums] : sums_) {
      const auto& [layer, target] = key;
      rows.push_back(row_of(shape_.heads.front().component, layer, target_cells(target, names_),
                            mean_cell(sums.weight.value(), sums.count),
                            mean_cell(sums.uniform.value(), sums.count), sums.count));
    }
    add_table(results, "rollout", "rollout",
              {"component", "layer", "token", "position", "mass", "uniform", "rows"}, std::move(rows));
    if (!sums_.empty()) results.text.push_back(page());
  }

 private:
  /// Finishes the rollout of a sequence through the layers [0, before) of layers_. All panels of the sequence
  /// in these layers have been processed.
  void close_layers(std::size_t sequence, std::size_t before) {
    SequenceRollout& of = sequences_[sequence];
    while (of.layer < before) {
      const WholeLayer& layer = layers_[of.layer];
      of.close_layer(layer.heads, block_->visible(sequence, layer.index));
      if (!of.complete) continue;
      for (const auto& [target, column] : of.targets) {
        WeightSums& sums = sums_[{layer.number, target}];
        for (std::size_t at = column; at < of.mass.size(); at += of.columns) {
          if (of.uniform[at] > 0) sums.add(1, of.mass[at], of.uniform[at]);
        }
      }
    }
  }
  [[nodiscard]] TextTable page() const {
    std::vector<std::int64_t> targets;
    std::vector<Column> columns = {"layer"};
    for (const auto& [key, sums] : sums_) {
      if (std::ranges::find(targets, key.second) == targets.end()) targets.push_back(key.second);
    }
    for (const std::int64_t target : targets) {
      columns.push_back(names_.of(target));
      columns.emplace_back("null");
    }
    std::vector<std::vector<Cell>> rows;
    for (const auto& [key, sums] : sums_) {
      const Cell layer = count_cell(key.first);
      if (rows.empty() || rows.back()[0] != layer) rows.emplace_back(columns.size())[0] = layer;
      const auto target = static_cast<std::size_t>(std::ranges::find(targets, key.second) - targets.begin());
      rows.back()[1 + 2 * target] = mean_cell(sums.weight.value(), sums.count);
      rows.back()[2 + 2 * target] = mean_cell(sums.uniform.value(), sums.count);
    }
    return {"Rollout to special tokens and position 0, by layer (null: rollout of uniform attention)",
            make_table("rollout", std::move(columns), std::move(rows))};
  }

  TokenNames names_;
  std::map<std::pair<std::size_t, std::int64_t>, WeightSums> sums_;  // of the mass, by layer and target
  const StudyBlock* block_ = nullptr;
  std::vector<WholeLayer> layers_;          // layers 0, 1, ... of one component whose heads are all selected
  std::vector<SequenceRollout> sequences_;  // [sequences] of the block
};

}  // namespace

MeasureRow rollout_measure() {
  return {.name = "rollout",
          .description =
              "attention rollout to special tokens and position 0, through all layers up to each layer",
          .make = make_measure<RolloutMeasure>,
          .definitions = kRolloutDefinitions};
}

}  // namespace attnctl::study
