#include <fmt/ranges.h>

#include "analysis/mixing/contributions.hpp"
#include "analysis/mixing/massive_activations.hpp"
#include "study/measure.hpp"

// The measure `residual`: how much each head writes to the residual stream, and massive activations of the
// stream.
namespace attnctl::study {
namespace {

constexpr auto kResidualDefinitions = std::to_array<Definition>({
    {"writes.write_ratio", "", "[0, inf)", "",
     "mean over positions of |w_i| / |x_i|: w = z W_O of the head, x is the residual stream to which the "
     "attention output is added",
     "after Kobayashi et al. 2020"},
    {"massive.massive_positions", "", "from 0", "",
     "number of positions with a massive value in the residual stream before the attention of the layer: a "
     "magnitude above 100 and above 1000 times the median magnitude of this stream in the sentence",
     "Sun et al. 2024"},
    {"writes.low", "", "[0, inf)", "", "lower end of the 95 % interval of write_ratio (docs/roles.md)"},
    {"writes.high", "", "[0, inf)", "", "upper end of the 95 % interval of write_ratio (docs/roles.md)"},
    {"writes.count", "", "from 0", "", "number of positions in the mean"},
    {"writes.idle", "", "true or false", "", "whether `write_ratio` is below --idle-ratio"},
    {"massive.sentences", "", "from 0", "", "number of sentences (windows with --stride) that were searched"},
    {"massive.massive_sentences", "", "from 0", "", "number of sentences with a massive value"},
    {"massive.first_share", "", "[0, 1]", "", "share of `massive_positions` that are position 0"},
    {"massive.largest_ratio", "", "[0, inf)", "",
     "largest |value| / median magnitude of a sentence, whether massive or not"},
    {"massive_dimensions.dimension", "", "from 0", "", "dimension of the residual stream"},
    {"massive_dimensions.count", "", "from 0", "", "number of massive values in this dimension"},
});

constexpr std::size_t kDimensions = 5;  // largest number of dimensions per layer in results
/// The largest sum of |w_i| / |x_i| over a sentence that is counted, so that exact sums cannot overflow.
constexpr double kLargestWrites = 1U << 20U;

/// The massive values before the attention of one layer.
struct LayerMassive {
  std::uint64_t sentences = 0, massive_sentences = 0;
  std::uint64_t positions = 0;        // with a massive value
  std::uint64_t first_positions = 0;  // those that are position 0
  double largest_ratio = 0;           // 0: no sentence with a median above 0
  /// The number of massive values in each dimension that has one: at most d_model items.
  std::map<std::uint64_t, std::uint64_t> dimensions;

  auto parts() { return std::tie(sentences, massive_sentences, positions, first_positions, dimensions); }

  /// Adds the stream [n, d_model] of a sentence. Leaves out a stream with a value that is not finite.
  void add(MatrixView<const float> stream) {
    const double median = analysis::median_magnitude(stream);
    if (!std::isfinite(median)) return;
    ++sentences;
    float largest = 0;
    bool found = false;
    for (std::size_t r = 0; r < stream.rows; ++r) {
      float of_row = 0;
      for (const float value : stream.row(r)) of_row = std::max(of_row, std::abs(value));
      largest = std::max(largest, of_row);
      if (!analysis::is_massive(of_row, median)) continue;
      found = true;
      ++positions;
      if (r == 0) ++first_positions;
      for (std::size_t c = 0; c < stream.cols; ++c)
        if (analysis::is_massive(stream(r, c), median)) ++dimensions[c];
    }
    if (found) ++massive_sentences;
    if (median > 0) largest_ratio = std::max(largest_ratio, double{largest} / median);
  }
  /// Returns the number of massive values.
  [[nodiscard]] std::uint64_t values() const {
    std::uint64_t sum = 0;
    for (const auto& [dimension, count] : dimensions) sum = saturating_sum(sum, count);
    return sum;
  }
  /// Returns the dimensions with most massive values and their counts; of equal counts, the smaller dimension
  /// is first.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> most_frequent() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> sorted(dimensions.begin(), dimensions.end());
    std::ranges::stable_sort(sorted, std::ranges::greater(), [](const auto& each) { return each.second; });
    sorted.resize(std::min(sorted.size(), kDimensions));
    return sorted;
  }
};

class ResidualMeasure final : public Measure {
 public:
  explicit ResidualMeasure(const StudyShape& shape) : Measure(shape), ratios_(shape.heads.size()) {
    for (std::size_t h = 0; h < shape.heads.size(); ++h) {
      selection_.heads.push_back(shape.heads[h].id);
      if (h > 0 && shape.heads[h].id.layer == shape.heads[h - 1].id.layer) continue;
      layers_.push_back(shape.heads[h].id.layer);
      first_heads_.push_back(h);
    }
    massive_.resize(layers_.size());
    grams_ = std::make_shared<analysis::OutputGrams>(selection_.heads);
  }

  [[nodiscard]] forward::Needs needs() const override {
    return {.patterns = false, .z = true, .stream = true};
  }
  void set_context(const Measure& so_far) override {
    grams_ = dynamic_cast<const ResidualMeasure&>(so_far).grams_;
  }
  void begin(const StudyBlock& block) override {
    writes_.emplace(selection_, grams_);
    writes_->begin(block.model, block.corpus.batch);
  }
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    writes_->stream(sequence, layer, values);
    const auto at = std::ranges::lower_bound(layers_, layer) - layers_.begin();
    massive_.at(static_cast<std::size_t>(at)).add(values);
  }
  void panel(const StudyPanel& panel) override { writes_->panel(panel.panel); }
  void end() override {
    const std::vector<analysis::HeadWriteRatio> found = writes_->finish();
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].sum <= kLargestWrites)  // false for NaN
        ratios_[i % heads()].add({.sum = found[i].sum, .rows = found[i].positions});
    }
    writes_.reset();
  }

  void merge(const Measure& other) override {
    const auto& from = dynamic_cast<const ResidualMeasure&>(other);
    merge_state(ratios_, from.ratios_);
    merge_state(massive_, from.massive_);
    for (std::size_t l = 0; l < massive_.size(); ++l)
      massive_[l].largest_ratio = std::max(massive_[l].largest_ratio, from.massive_[l].largest_ratio);
  }
  void save(StateWriter& out) const override {
    save_state(out, ratios_);
    save_state(out, massive_);
    for (const LayerMassive& layer : massive_) out.real(layer.largest_ratio);
  }
  void load(StateReader& in) override {
    load_state(in, ratios_);
    load_state(in, massive_);
    for (const RatioSums& sums : ratios_)
      if (sums.rows() < sums.sentences() || sums.mean().value_or(0) < 0)
        in.damaged("the sums of write ratios do not fit together");
    for (LayerMassive& layer : massive_) {
      layer.largest_ratio = in.real();
      if (!(layer.largest_ratio >= 0) || !std::isfinite(layer.largest_ratio))
        in.damaged("a ratio of massive activations is not a number from 0");
      if (layer.massive_sentences > layer.sentences || layer.massive_sentences > layer.positions ||
          layer.first_positions > layer.massive_sentences || layer.values() < layer.positions)
        in.damaged("the counts of massive activations do not fit together");
    }
  }

  void finish(StudyResults& results) const override {
    add_writes(results);
    add_massive(results);
  }

 private:
  void add_writes(StudyResults& results) const {
    const double limit = results.thresholds.idle_ratio;
    std::vector<std::vector<Cell>> rows;
    std::vector<Cell> grid;
    std::size_t measured = 0;
    std::vector<std::string> names;  // of the idle heads
    for (std::size_t h = 0; h < heads(); ++h) {
      const std::optional<double> ratio = ratios_[h].mean();
      if (ratio) ++measured;
      if (ratio && *ratio < limit) names.push_back(shape_.heads[h].name);
      grid.push_back(real_cell(ratio));
      rows.push_back(row_of(shape_.head_cells(h), ratio, interval_cells(ratios_[h].mean_interval()),
                            ratios_[h].rows(), ratio ? Cell(*ratio < limit) : Cell()));
    }
    add_table(results, "write", "writes",
              {"component", "layer", "head", "name", "write_ratio", "low", "high", "count", "idle"},
              std::move(rows));
    if (measured == 0) return;  // the model has no values (W_V)
    results.summary.set(
        "idle",
        Record().set("ratio", limit).set("heads", measured).set("count", names.size()).set("names", names));
    results.text.push_back(
        head_grid(shape_, "Length of what heads write, as a share of the residual stream", grid));
    results.text.emplace_back(TextLine{
        "Idle heads", fmt::format(": {} of {} write less than {} of the residual stream{}{}", names.size(),
                                  counted(measured, "head"), limit, names.empty() ? "" : ": ",
                                  shown(fmt::format("{}", fmt::join(names, ", "))))});
  }

  void add_massive(StudyResults& results) const {
    std::vector<std::vector<Cell>> rows, dimensions, shown_rows;
    double largest = 0;
    for (std::size_t l = 0; l < massive_.size(); ++l) {
      const StudyHead& head = shape_.heads[first_heads_[l]];
      const LayerMassive& layer = massive_[l];
      const Cell share = mean_cell(static_cast<double>(layer.first_positions), layer.positions);
      const Cell ratio = layer.largest_ratio > 0 ? real_cell(layer.largest_ratio) : Cell();
      rows.push_back(row_of(head.component, head.layer, layer.sentences, layer.massive_sentences,
                            layer.positions, share, ratio));
      std::vector<std::string> parts;
      for (const auto& [dimension, count] : layer.most_frequent()) {
        dimensions.push_back(row_of(head.component, head.layer, dimension, count));
        parts.push_back(fmt::format("{} ({})", dimension, count));
      }
      largest = std::max(largest, layer.largest_ratio);
      if (layer.positions > 0)
        shown_rows.push_back(row_of(head.name.substr(0, head.name.rfind('.')), layer.massive_sentences,
                                    layer.positions, share, ratio,
                                    fmt::format("{}", fmt::join(parts, ", "))));
    }
    add_table(results, "massive", "massive",
              {"component", "layer", "sentences", "massive_sentences", "massive_positions", "first_share",
               "largest_ratio"},
              std::move(rows));
    add_table(results, "massive_dimension", "massive_dimensions",
              {"component", "layer", "dimension", "count"}, std::move(dimensions));
    if (shown_rows.empty()) {
      results.text.emplace_back(TextLine{
          "Massive activations", fmt::format(": none (magnitude above 100 and above 1000 times the median; "
                                             "largest: {:.3g} times)",
                                             largest)});
      return;
    }
    const char* const title =
        "Massive activations before the attention of each layer (magnitude above 100 and above 1000 times "
        "the median)";
    results.text.emplace_back(TextTable{title, make_table("massive",
                                                          {"layer", "sentences", "positions", "at position 0",
                                                           "largest / median", "dimensions (values)"},
                                                          std::move(shown_rows))});
  }

  forward::Selection selection_;
  std::vector<std::size_t> layers_;       // the layers with a selected head, ascending
  std::vector<std::size_t> first_heads_;  // [layers_], index of the first head of the layer
  std::vector<RatioSums> ratios_;         // [heads], of |w_i| / |x_i| over positions
  std::vector<LayerMassive> massive_;     // [layers_]
  /// All blocks share the Gram matrices of the measure in the state of the study.
  std::shared_ptr<analysis::OutputGrams> grams_;
  std::optional<analysis::WriteRatios> writes_;  // of the open block
};

MeasureMemory residual_memory(const model::ModelConfig& config, std::span<const model::HeadId> heads,
                              const input::Batch& batch) {
  std::uint64_t widest = 0, grams = 0;
  for (const model::HeadId head : heads) {
    const std::uint64_t width = config.layers.at(head.layer).attention.d_value;
    widest = std::max(widest, width);
    grams = saturating_sum(grams, saturating_product(width * width, sizeof(double)));
  }
  std::uint64_t rows = 0;
  for (const input::Sequence& sequence : batch.sequences) rows = std::max(rows, sequence.queries());
  // W_O of a head, and z of a head in one sequence before and after its product with a Gram matrix.
  const std::uint64_t working = saturating_product<std::uint64_t>(config.d_model + 2 * rows, widest);
  return {.block = saturating_product(working, sizeof(double)), .study = grams};
}

}  // namespace

MeasureRow residual_measure() {
  return {.name = "residual",
          .description = "how much each head writes to the residual stream, idle heads, massive activations",
          .make = make_measure<ResidualMeasure>,
          .definitions = kResidualDefinitions,
          .memory = residual_memory};
}

}  // namespace attnctl::study
