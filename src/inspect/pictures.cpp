#include "inspect/pictures.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "analysis/head_axes.hpp"
#include "base/error.hpp"
#include "inspect/show.hpp"
#include "inspect/head_order.hpp"

namespace attnctl::cli {
namespace {

HeatmapPage similarity_page(const WeightsAnalysis& weights, const ModelConfig& config, HeadOrder order) {
  HeatmapPage page;
  page.scale = {.diverging = true, .low = -1, .high = 1, .label = "Subspace Correlation"};
  const std::vector<SubspaceSimilarity>& all = weights.qk.similarity;
  page.title = "Head Subspace Similarity";
  page.columns = square_columns(all.size());
  for (const SubspaceSimilarity& each : all) {
    HeadMatrix matrix{each.layer, each.heads, each.values};
    if (order == HeadOrder::cluster) matrix = in_cluster_order(std::move(matrix));
    const std::string title = all.size() == 1 ? page.title : "Layer " + layer_name(config, *each.layer);
    page.heatmaps.push_back(head_heatmap(config, title, matrix));
  }
  return page;
}

/// Returns the largest finite value, or 1 if no value is positive.
double largest(const std::vector<Heatmap>& heatmaps) {
  double most = 0;
  for (const Heatmap& heatmap : heatmaps) {
    std::visit(
        [&](const auto& values) {
          for (const auto value : values) {
            if (std::isfinite(static_cast<double>(value))) most = std::max(most, static_cast<double>(value));
          }
        },
        heatmap.values.values);
  }
  return most > 0 ? most : 1;
}

/// Returns a page of patterns with one row per layer and one column per head.
HeatmapPage pattern_page(const RunResults& results) {
  HeatmapPage page;
  page.scale = {.diverging = false, .low = 0, .high = 1, .label = "Attention weight"};
  const HeadAxes axes(results.selection.heads);
  const std::size_t heads = results.selection.heads.size();
  page.columns = axes.regular() ? heads / axes.layers().size() : heads;
  if (results.show_layers) ++page.columns;
  for (DrawnPattern& pattern : drawn_patterns(results)) {
    const Sides sides = results.sides(pattern.component, pattern.sequence);
    const std::string input =
        results.batch.sequences.size() == 1 ? "" : results.batch.sequences[pattern.sequence].id + " ";
    page.heatmaps.push_back({input + pattern.title, "Key", "Query", key_labels(results, sides),
                             token_labels(results, sides.queries_of), std::move(pattern.values)});
  }
  const bool single = page.heatmaps.size() == 1;
  page.title = single ? "" : "Attention Patterns";
  if (single) page.heatmaps.front().title = "Attention Pattern of " + page.heatmaps.front().title;
  if (results.weighting != Weighting::weights) page.scale.label = "Norm of weighted value";
  if (results.weighting == Weighting::norm) page.scale.high = largest(page.heatmaps);
  return page;
}

}  // namespace

std::vector<Picture> analysis_pictures(const RunResults& results) {
  std::vector<Picture> pictures;
  if (results.includes.patterns) pictures.push_back({"patterns", pattern_page(results)});
  for (const Results& part : results.parts)
    pictures.insert(pictures.end(), part.pictures.begin(), part.pictures.end());
  if (results.weights) {
    pictures.push_back({"similarity", similarity_page(*results.weights, results.config(), results.order)});
  }
  return pictures;
}

}  // namespace attnctl::cli
