#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/mixing/massive_activations.hpp"
#include "forward/block.hpp"
#include "forward/run.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

// Massive activations: the largest values of the residual stream.
namespace attnctl::inspect {
namespace {

constexpr std::size_t kRanks = 3;   // number of values per layer
constexpr std::size_t kCharts = 6;  // largest number of inputs in the picture

struct StreamValue {
  std::size_t position = 0;
  std::size_t dimension = 0;
  float value = 0;
};

/// The residual stream before the attention of one layer, for one input.
struct LayerActivations {
  std::size_t input = 0;  // index in the batch
  std::size_t layer = 0;
  double median = 0;                 // of the magnitudes of all values; NaN if a value is not finite
  std::vector<StreamValue> largest;  // by descending magnitude; empty if a value is not finite
};

/// Returns the values of largest magnitude. Of equal magnitudes, the earlier position, then the smaller
/// dimension is first.
std::vector<StreamValue> largest_values(MatrixView<const float> values) {
  std::vector<StreamValue> largest;
  for (std::size_t r = 0; r < values.rows; ++r) {
    const std::span<const float> row = values.row(r);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const float size = std::abs(row[c]);
      if (largest.size() == kRanks && size <= std::abs(largest.back().value)) continue;
      const auto place =
          std::ranges::find_if(largest, [&](const StreamValue& each) { return std::abs(each.value) < size; });
      largest.insert(place, {r, c, row[c]});
      if (largest.size() > kRanks) largest.pop_back();
    }
  }
  return largest;
}

class ActivationsAnalysis final : public Analysis, private forward::Observer {
 public:
  using Analysis::Analysis;

  std::vector<forward::Observer*> observers() override { return {this}; }
  std::uint64_t values() const override {
    constexpr std::uint64_t kCells = 11;
    return kCells * kRanks * input_.selection.layers().size() * input_.batch.sequences.size();
  }

  Results finish() override {
    std::ranges::sort(found_, {},
                      [](const LayerActivations& each) { return std::pair(each.input, each.layer); });
    const Table all = table();
    Results results;
    results.add_table("activation", all);
    add_text(results, all);
    analysis::for_each_group(
        found_, &LayerActivations::input,
        [&](std::span<const LayerActivations> of_input) { add_arrays(results, of_input); });
    if (!found_.empty()) results.pictures.push_back({"activations", chart_page()});
    return results;
  }

 private:
  [[nodiscard]] forward::Needs needs() const override { return {.patterns = false, .stream = true}; }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override {
    std::uint64_t longest = 0;
    for (const input::Sequence& sequence : batch.sequences)
      longest = std::max<std::uint64_t>(
          {longest, sequence.queries(), sequence.target ? sequence.target->queries() : 0});
    constexpr std::size_t kOfLayer = 2 * (sizeof(LayerActivations) + (kRanks + 1) * sizeof(StreamValue));
    return longest * model.config().d_model * sizeof(float) +
           batch.sequences.size() * input_.selection.layers().size() * kOfLayer;
  }
  void begin(const model::Model& /*model*/, const input::Batch& /*batch*/) override { found_.clear(); }
  void panel(const forward::AttentionPanel& /*panel*/) override {}
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    const std::vector<std::size_t> layers = input_.selection.layers();
    if (!std::ranges::binary_search(layers, layer)) return;
    LayerActivations& found = found_.emplace_back();
    found.input = sequence;
    found.layer = layer;
    found.median = analysis::median_magnitude(values);
    if (std::isfinite(found.median)) found.largest = largest_values(values);
  }

  Table table() const {
    TableRows rows{"activations",
                   columns_of(kActivationColumns, {"input", "component", "layer", "rank", "position", "token",
                                                   "dimension", "value", "median", "ratio", "massive"})};
    const bool is_text = input_.request.form == Form::text;
    for (const LayerActivations& each : found_) {
      const input::Sequence& sequence = input_.shown.sequences[each.input];
      const auto& tokens =
          forward::sides_of(input_.config().layers[each.layer].component, sequence).queries_of.tokens;
      const std::vector<Cell> layer =
          row_of(sequence.id, analysis::component_cell(input_.config(), each.layer),
                 analysis::number_cell(input_.config(), each.layer));
      if (each.largest.empty())  // the median is NaN
        rows.add(layer, std::size_t{1}, Cell(), Cell(), Cell(), each.median, each.median, each.median,
                 Cell());
      for (std::size_t rank = 0; rank < each.largest.size(); ++rank) {
        const auto& [position, dimension, value] = each.largest[rank];
        const std::optional<double> ratio =
            each.median == 0 ? std::nullopt : std::optional(std::abs(double{value}) / each.median);
        Cell token = token_cell(tokens, position);
        if (auto* const text = std::get_if<std::string>(&token); text != nullptr && is_text)
          *text = input_.vocabulary.label(*text, input_.request.strip_markers);
        rows.add(layer, rank + 1, position, token, dimension, double{value}, each.median, ratio,
                 Cell(analysis::is_massive(value, each.median)));
      }
    }
    return rows.table();
  }

  void add_text(Results& results, const Table& all) const {
    std::vector<std::string> columns = {"layer",     "rank",   "value", "position", "token",
                                        "dimension", "median", "ratio", "massive"};
    if (input_.config().decoder) columns.insert(columns.begin(), "component");
    if (input_.shown.sequences.size() > 1) columns.insert(columns.begin(), "input");
    results.text.emplace_back(
        TextTable{"Largest values of the residual stream before the attention of each layer",
                  select_columns(all, columns), 3});
    std::size_t massive = 0;
    std::vector<std::string> layers;
    for (const LayerActivations& each : found_) {
      const auto count =
          static_cast<std::size_t>(std::ranges::count_if(each.largest, [&](const StreamValue& one) {
            return analysis::is_massive(one.value, each.median);
          }));
      massive += count;
      const std::string name = model::layer_name(input_.config(), each.layer);
      if (count > 0 && std::ranges::find(layers, name) == layers.end()) layers.push_back(name);
    }
    results.text.emplace_back(TextLine{
        "Massive activations", massive == 0
                                   ? ": none (magnitude above 100 and above 1000 times the median)"
                                   : fmt::format(": {} of these values, in layer{} {}", massive,
                                                 layers.size() == 1 ? "" : "s", fmt::join(layers, ", "))});
  }

  /// Adds the arrays activations_NAME_I of one input I: [layers, ranks], and [layers] of the median.
  static void add_arrays(Results& results, std::span<const LayerActivations> of_input) {
    std::vector<float> values(of_input.size() * kRanks, static_cast<float>(kUndefined));
    std::vector<std::int64_t> positions(values.size(), -1);
    std::vector<std::int64_t> dimensions(values.size(), -1);
    std::vector<float> medians;
    for (std::size_t l = 0; l < of_input.size(); ++l) {
      medians.push_back(static_cast<float>(of_input[l].median));
      for (std::size_t rank = 0; rank < of_input[l].largest.size(); ++rank) {
        const StreamValue& each = of_input[l].largest[rank];
        values[l * kRanks + rank] = each.value;
        positions[l * kRanks + rank] = static_cast<std::int64_t>(each.position);
        dimensions[l * kRanks + rank] = static_cast<std::int64_t>(each.dimension);
      }
    }
    const std::size_t input = of_input.front().input;
    const Shape shape = {of_input.size(), kRanks};
    const auto name = [&](const char* of) { return fmt::format("activations_{}_{}", of, input); };
    results.arrays.push_back({name("value"), make_tensor(shape, std::move(values))});
    results.arrays.push_back({name("position"), make_tensor(shape, std::move(positions))});
    results.arrays.push_back({name("dimension"), make_tensor(shape, std::move(dimensions))});
    results.arrays.push_back({name("median"), make_tensor({of_input.size()}, std::move(medians))});
  }

  /// Returns a chart for each of the first inputs: the largest magnitudes and the median over the layers.
  ChartPage chart_page() const {
    ChartPage page{"Largest Values of the Residual Stream", {}, {}};
    TableRows rows{"activations", {"layer"}};
    for (const std::size_t layer : input_.selection.layers())
      rows.add(analysis::number_cell(input_.config(), layer));
    std::vector<std::string> names = {"largest", "second", "third", "median"};
    analysis::for_each_group(
        found_, &LayerActivations::input, [&](std::span<const LayerActivations> of_input) {
          if (page.charts.size() == kCharts) return;
          const std::string& id = input_.shown.sequences[of_input.front().input].id;
          Chart chart{.title = "Input " + id,
                      .x = "layer",
                      .y = {},
                      .x_axis = "Layer",
                      .y_axis = "Magnitude",
                      .log_y = true};
          for (std::size_t i = 0; i <= kRanks; ++i) {
            const std::string column =
                page.charts.empty() ? names[i] : fmt::format("{} {}", names[i], page.charts.size());
            rows.columns.emplace_back(column);
            chart.y.push_back(column);
            for (std::size_t l = 0; l < rows.rows.size(); ++l) {
              const std::vector<StreamValue>& largest = of_input[l].largest;
              rows.rows[l].push_back(i == kRanks          ? analysis::cell_of(of_input[l].median)
                                     : i < largest.size() ? Cell(std::abs(largest[i].value))
                                                          : Cell());
            }
          }
          page.charts.push_back(std::move(chart));
        });
    page.table = rows.table();
    return page;
  }

  std::vector<LayerActivations> found_;
};

}  // namespace

constexpr std::array<Definition, 5> kActivationColumns = {
    {{"rank", "", "1 to 3", "", "rank of the value among those of the layer, by descending magnitude"},
     {"value", "", "(-inf, inf)", "", "value of the residual stream before the attention of the layer",
      "Sun et al. 2024"},
     {"median", "", "[0, inf)", "",
      "median magnitude of all values of the residual stream of this layer and input"},
     {"ratio", "", "[0, inf)", "", "|value| / median"},
     {"massive", "", "true or false", "", "whether |value| is above 100 and above 1000 times the median",
      "Sun et al. 2024"}}};

std::unique_ptr<Analysis> make_activations(const AnalysisInput& input) {
  return std::make_unique<ActivationsAnalysis>(input);
}

}  // namespace attnctl::inspect
