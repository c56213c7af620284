#pragma once

#include "attnctl/base/output_file.hpp"
#include "attnctl/base/result.hpp"

#include <cstddef>
#include <string>
#include <vector>

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
};

/// The most cells that one page draws.
inline constexpr std::size_t most_svg_cells = 250000;

/// Writes a page as a standalone SVG without scripts or outside references. Where they are large enough cells
/// show their value with two decimals, in white ink from half of the scale's end on, and up to some thousands
/// of cells each tells its labels and value when pointed at. Long labels are turned and cut, many are thinned
/// out. Throws Error(limit) over most_svg_cells, and std::invalid_argument where labels and shape disagree.
void write_svg(OutputFile& out, const HeatmapPage& page);

}  // namespace attnctl
