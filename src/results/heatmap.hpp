#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "results/result.hpp"

namespace attnctl {

/// The colour scale of a heatmap from `low` to `high`. Diverging: blue, white, red. Sequential: white to dark
/// blue. Values outside the range have the colour of the nearer end; undefined values (NaN) are grey.
struct HeatmapScale {
  bool diverging = true;
  double low = -1;
  double high = 1;
  std::string label;  // next to the colour bar
};

/// One matrix with its labels. The first row is at the top.
struct Heatmap {
  std::string title;
  std::string x_axis;
  std::string y_axis;
  std::vector<std::string> x_labels;  // one per column, or empty
  std::vector<std::string> y_labels;  // one per row, or empty
  Array values;                       // [rows, columns], float or double
};

/// One heatmap, or a grid of heatmaps (layers by heads), with a common scale and colour bar. A grid has the
/// axes of its first heatmap. Tick labels that all heatmaps share are drawn at the edge of the grid only.
struct HeatmapPage {
  std::string title;  // of a grid; a single heatmap has its own
  HeatmapScale scale;
  std::size_t columns = 1;  // number of grid columns
  std::vector<Heatmap> heatmaps;
  std::vector<std::string> cell_texts =
      {};  // [rows * columns], shown instead of the values of a single heatmap
};

}  // namespace attnctl
