#pragma once

#include "cli/analyses/results.hpp"
#include "report/svg/svg.hpp"

namespace attnctl::cli {

/// Heatmaps on one page: patterns of the selected heads where they were included, else the subspace
/// similarity (QK) of each layer, or across layers. Throws Error(usage) where neither was computed.
[[nodiscard]] HeatmapPage heatmap_page(const Results& results);

/// The charts to draw in the place of heatmaps; null where an analysis that was included draws none.
[[nodiscard]] const ChartPage* chart_page(const Results& results);

}  // namespace attnctl::cli
