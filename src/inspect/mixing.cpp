#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "analysis/mixing/mixing.hpp"
#include "base/undefined.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

namespace attnctl::cli {
namespace {

class MixingPart final : public AnalysisPart {
 public:
  explicit MixingPart(const PartInput& input) : input_(input), mixing_(input.selection) {}

  std::vector<Observer*> observers() override { return {&mixing_}; }
  HeadsSeen heads_seen() const override { return HeadsSeen::of_selected_layers; }
  Results finish() override;

 private:
  [[nodiscard]] Table table(const std::vector<LayerMixing>& layers) const;
  [[nodiscard]] TextTable summary(const std::vector<LayerMixing>& layers) const;
  [[nodiscard]] Heatmap heatmap(std::span<const LayerMixing> layers, const Array& ratios) const;

  PartInput input_;
  Mixing mixing_;
};

/// Returns one row per layer and position.
Table MixingPart::table(const std::vector<LayerMixing>& layers) const {
  std::vector<std::vector<Cell>> rows;
  for (const LayerMixing& layer : layers) {
    const Sequence& sequence = input_.shown.sequences[layer.input];
    for (std::size_t i = 0; i < layer.positions.size(); ++i) {
      const PositionMixing& at = layer.positions[i];
      const auto ratio = at.ratio();
      rows.push_back({sequence.id, Cell(), static_cast<std::int64_t>(layer.layer),
                      static_cast<std::int64_t>(i),
                      i < sequence.tokens.size() ? Cell(sequence.tokens[i]) : Cell(), cell_of(at.mix),
                      cell_of(at.keep), cell_of(ratio)});
    }
  }
  return make_table("mixing", {"input", "component", "layer", "position", "token", "mix", "keep", "ratio"},
                    std::move(rows));
}

/// Returns the mean ratio of each layer over its positions.
TextTable MixingPart::summary(const std::vector<LayerMixing>& layers) const {
  std::vector<std::vector<Cell>> rows;
  for (const LayerMixing& layer : layers) {
    double sum = 0;
    double least = 1;
    double most = 0;
    std::size_t count = 0;
    for (const PositionMixing& at : layer.positions) {
      const auto ratio = at.ratio();
      if (!ratio) continue;
      sum += *ratio;
      least = std::min(least, *ratio);
      most = std::max(most, *ratio);
      ++count;
    }
    std::vector<Cell>& row = rows.emplace_back();
    row = {input_.shown.sequences[layer.input].id, static_cast<std::int64_t>(layer.layer), Cell(), Cell(),
           Cell()};
    if (count == 0) continue;
    const double mean = sum / static_cast<double>(count);
    row[2] = cell_of(mean);
    row[3] = cell_of(std::isfinite(mean) ? least : mean);
    row[4] = cell_of(std::isfinite(mean) ? most : mean);
  }
  return {"Mixing ratio over positions (0: all is kept, 1: all comes from other positions)",
          make_table("", {"input", "layer", "mean", "smallest", "largest"}, std::move(rows)), 3};
}

/// Returns a heatmap of one input with layers as rows and tokens as columns.
Heatmap MixingPart::heatmap(std::span<const LayerMixing> layers, const Array& ratios) const {
  const Sequence& sequence = input_.shown.sequences[layers.front().input];
  Heatmap heatmap;
  heatmap.title = input_.shown.sequences.size() == 1 ? "Mixing Ratio" : sequence.id;
  heatmap.x_axis = "Token";
  heatmap.y_axis = "Layer";
  for (const std::string& token : sequence.tokens)
    heatmap.x_labels.push_back(input_.open.vocabulary.plain(token));
  for (const LayerMixing& layer : layers) heatmap.y_labels.push_back(std::to_string(layer.layer));
  heatmap.values = ratios;
  return heatmap;
}

Results MixingPart::finish() {
  const std::vector<LayerMixing> layers = mixing_.finish();
  Results results;
  const Table all = table(layers);
  results.document.sections.push_back({"mixing", "mixing", all});
  results.tables.push_back(all);
  results.text.push_back(summary(layers));
  HeatmapPage page;
  page.scale = {.diverging = false, .low = 0, .high = 1, .label = "From other positions"};
  for (auto first = layers.begin(); first != layers.end();) {
    std::vector<float> ratios;
    auto last = first;
    for (; last != layers.end() && last->input == first->input; ++last) {
      for (const PositionMixing& at : last->positions) {
        ratios.push_back(static_cast<float>(at.ratio().value_or(kUndefined)));
      }
    }
    const auto count = static_cast<std::size_t>(last - first);
    const Array array = make_array({count, first->positions.size()}, std::move(ratios));
    results.arrays.push_back({fmt::format("mixing_{}", first->input), array});
    page.heatmaps.push_back(heatmap({first, last}, array));
    first = last;
  }
  if (page.heatmaps.size() > 1) page.title = "Mixing Ratio";
  if (!page.heatmaps.empty()) results.pictures.push_back({"mixing", std::move(page)});
  return results;
}

}  // namespace

std::unique_ptr<AnalysisPart> make_mixing(const PartInput& input) {
  require_values(input, "mixing");
  return std::make_unique<MixingPart>(input);
}

}  // namespace attnctl::cli
