#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "results/result.hpp"

namespace attnctl {

/// Which colours stand for the numbers: diverging is blue, white, red from `low` to `high`; sequential is
/// white to dark blue. Values beyond the ends have the end's colour; undefined (NaN) is grey.
struct HeatmapScale {
  bool diverging = true;
  double low = -1;
  double high = 1;
  std::string label;  // beside the colour bar
};

/// One matrix; the first row is on top.
struct Heatmap {
  std::string title;
  std::string x_axis;
  std::string y_axis;
  std::vector<std::string> x_labels;  // one a column, or none at all
  std::vector<std::string> y_labels;  // one a row, or none at all
  Array values;                       // [rows, columns], float or double
};

/// Heatmaps on one page that share a scale and its colour bar: one, or a grid (layers by heads). In a grid
/// the axes are those of the first heatmap, and tick labels that all heatmaps share stand at the grid's edge
/// only.
struct HeatmapPage {
  std::string title;  // of a grid; a single heatmap has its own
  HeatmapScale scale;
  std::size_t columns = 1;  // of the grid
  std::vector<Heatmap> heatmaps;
  std::vector<std::string> cell_texts =
      {};  // instead of the numbers, if there is one heatmap [rows * columns]
};

}  // namespace attnctl
