#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/matrix_view.hpp"
#include "model/model.hpp"
#include "report/svg.hpp"
#include "results/results.hpp"

namespace attnctl::cli {

/// Heads with a matrix over all pairs of them, within one layer or across layers (`layer` is nullopt).
struct HeadMatrix {
  std::optional<std::size_t> layer;
  std::vector<HeadId> heads;
  OwnedMatrix<double> values;  // [heads, heads]; NaN if undefined
};

/// Reorders the heads by the dendrogram of average linkage, so that similar heads are adjacent.
[[nodiscard]] HeadMatrix in_cluster_order(HeadMatrix matrix);

/// Returns a heatmap with heads on both axes, labelled "Head i" within a layer and "L.H" across layers.
[[nodiscard]] Heatmap head_heatmap(const ModelConfig& config, const std::string& title,
                                   const HeadMatrix& matrix);

/// Returns a name in the notation of formulas: "w_q" as W_Q, "qk" as QK.
[[nodiscard]] std::string symbol_of(std::string_view name);

/// Returns the number of columns for a roughly square page of `heatmaps` heatmaps.
[[nodiscard]] std::size_t square_columns(std::size_t heatmaps);

}  // namespace attnctl::cli
