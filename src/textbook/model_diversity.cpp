#include <array>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "analysis/weights/weights.hpp"
#include "base/error.hpp"
#include "textbook/diversity.hpp"
#include "textbook/drawn_heads.hpp"

namespace attnctl {
namespace {

/// Mean measures of a layer's heads, trained or random.
struct Means {
  std::optional<double> effective_rank, similarity, absolute_similarity;

  [[nodiscard]] std::array<std::optional<double>, 3> all() const {
    return {effective_rank, similarity, absolute_similarity};
  }
};
constexpr std::array kNames{"effective_rank", "similarity", "absolute_similarity"};

/// Random heads of one shape, over the draws.
struct RandomHeads {
  std::array<Spread, 3> spreads;
  OwnedMatrix<double> similarity;  // first draw only
};

RandomHeads draw_heads(const CircuitShape& shape, std::uint64_t number, const DiversityOptions& options,
                       Pool& pool) {
  RandomHeads heads;
  std::array<std::vector<double>, 3> values;
  for (std::size_t draw = 0; draw < options.draws; ++draw) {
    HeadDiversity measured =
        measure(DrawnHeads(shape, options.seed, number * options.draws + draw, pool), shape.heads, pool);
    const Means means{measured.mean_rank, measured.off_diagonal.mean, measured.off_diagonal.mean_abs};
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (means.all()[i]) values[i].push_back(*means.all()[i]);
    }
    if (draw == 0) heads.similarity = std::move(measured.similarity);
  }
  for (std::size_t i = 0; i < values.size(); ++i) heads.spreads[i] = spread_of(values[i]);
  return heads;
}

/// A layer of the model and the random heads that it is compared with.
struct Layer {
  std::size_t index = 0;
  Means means;
  const OwnedMatrix<double>* similarity = nullptr;
  const RandomHeads* random = nullptr;
};

Means means_of(const CircuitAnalysis& analysis, const SubspaceSimilarity& similarity) {
  std::vector<double> ranks;
  for (const HeadSpectrum& head : analysis.heads) {
    if (head.head.layer == similarity.layer && head.effective_rank) ranks.push_back(*head.effective_rank);
  }
  return {spread_of(ranks).mean, similarity.off_diagonal.mean, similarity.off_diagonal.mean_abs};
}

Cell cell_of(const std::optional<double>& value) {
  return value ? Cell(*value) : Cell();
}

Table rows_of(const std::vector<Layer>& layers) {
  std::vector<std::string> columns{"layer"};
  for (const std::string name : kNames) {
    columns.push_back(name);
    columns.push_back("random_" + name);
    columns.push_back("random_" + name + "_deviation");
  }
  std::vector<std::vector<Cell>> rows;
  for (const Layer& layer : layers) {
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(static_cast<std::int64_t>(layer.index));
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      row.push_back(cell_of(layer.means.all()[i]));
      row.push_back(cell_of(layer.random->spreads[i].mean));
      row.push_back(cell_of(layer.random->spreads[i].deviation));
    }
  }
  return make_table("rows", std::move(columns), std::move(rows));
}

/// Returns the means over the layers.
Record summary_of(const std::vector<Layer>& layers) {
  Record summary;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    std::vector<double> trained;
    std::vector<double> random;
    for (const Layer& layer : layers) {
      const std::optional<double> here = layer.means.all()[i];
      const std::optional<double> drawn = layer.random->spreads[i].mean;
      if (here) trained.push_back(*here);
      if (drawn) random.push_back(*drawn);
    }
    summary.set(kNames[i], cell_of(spread_of(trained).mean))
        .set(std::string("random_") + kNames[i], cell_of(spread_of(random).mean));
  }
  return summary;
}

Heatmap heatmap_of(const OwnedMatrix<double>& similarity, std::string title) {
  Heatmap map;
  map.title = std::move(title);
  map.x_axis = map.y_axis = "Head";
  for (std::size_t head = 0; head < similarity.rows(); ++head) map.x_labels.push_back(std::to_string(head));
  map.y_labels = map.x_labels;
  map.values = make_array({similarity.rows(), similarity.cols()},
                          std::vector<double>(similarity.values().begin(), similarity.values().end()));
  return map;
}

HeatmapPage page_of(const std::vector<Layer>& layers, const std::map<CircuitShape, RandomHeads>& random) {
  HeatmapPage page{.title = "Head Subspace Similarity",
                   .scale = {.label = "Subspace Correlation"},
                   .columns = std::min<std::size_t>(4, layers.size() + random.size()),
                   .heatmaps = {}};
  for (const Layer& layer : layers)
    page.heatmaps.push_back(heatmap_of(*layer.similarity, fmt::format("Layer {}", layer.index)));
  for (const auto& [shape, heads] : random) {
    const std::string sizes = fmt::format(", {} heads of {}", shape.heads, shape.width);
    page.heatmaps.push_back(heatmap_of(heads.similarity, "Random" + (random.size() > 1 ? sizes : "")));
  }
  return page;
}

Chart chart_of(const std::string& column, const char* title) {
  return {
      .title = title, .x = "layer", .y = {column, "random_" + column}, .x_axis = "Layer", .y_axis = title};
}

}  // namespace

ExperimentResult model_diversity_experiment(const Model& model, Circuit circuit,
                                            const DiversityOptions& options, Pool& pool, Warnings& warnings) {
  const WeightsAnalysis weights = analyze_weights(model, Selection::all(model.config()), {}, pool, warnings);
  if (circuit == Circuit::ov && !weights.ov)
    fail(Status::bad_input, "--circuit ov: no layer has both W_V and W_O; use qk");
  const CircuitAnalysis& analysis = circuit == Circuit::qk ? weights.qk : *weights.ov;

  std::map<CircuitShape, RandomHeads> random;
  std::vector<Layer> layers;
  for (const SubspaceSimilarity& similarity : analysis.similarity) {
    const std::size_t index = similarity.layer.value();
    const CircuitShape shape =
        shape_of(circuit_factors(model, index, circuit, false).value(), similarity.heads.size());
    auto known = random.find(shape);
    if (known == random.end())
      known = random.emplace(shape, draw_heads(shape, random.size(), options, pool)).first;
    layers.push_back({index, means_of(analysis, similarity), &similarity.values, &known->second});
  }

  ExperimentResult result;
  result.name = "diversity";
  result.seed = options.seed;
  result.parameters.set("model", model.name())
      .set("circuit", std::string(name_of(circuit)))
      .set("draws", options.draws);
  result.rows = rows_of(layers);
  result.summary = summary_of(layers);
  result.charts = {chart_of("effective_rank", "Effective rank"),
                   chart_of("absolute_similarity", "Mean magnitude of similarity")};
  result.heatmaps = {{"similarity", page_of(layers, random)}};
  return result;
}

}  // namespace attnctl
