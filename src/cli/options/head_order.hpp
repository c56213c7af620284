#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/matrix_view.hpp"
#include "model/model.hpp"
#include "report/svg/svg.hpp"
#include "results/result.hpp"

namespace attnctl::cli {

/// Heads with a matrix of all pairs of them: within a layer, or across layers (nullopt).
struct HeadMatrix {
  std::optional<std::size_t> layer;
  std::vector<HeadId> heads;
  OwnedMatrix<double> values;  // [heads, heads]; NaN: undefined
};

/// The same in the order of the tree of average linkage: similar heads stand beside each other.
[[nodiscard]] HeadMatrix in_cluster_order(HeadMatrix matrix);

/// Both axes are heads: "Head i" within a layer, "L.H" across layers.
[[nodiscard]] Heatmap head_heatmap(const ModelConfig& config, const std::string& title,
                                   const HeadMatrix& matrix);

/// A name as formulas write it: "w_q" is W_Q, "qk" QK.
[[nodiscard]] std::string symbol_of(std::string_view name);

/// Columns of a page of so many heatmaps: about as many as rows.
[[nodiscard]] std::size_t square_columns(std::size_t heatmaps);

}  // namespace attnctl::cli
