#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/svg/svg.hpp"
#include "report/svg/svg_cells.hpp"

namespace attnctl {

/// The tick labels of one axis: every step-th label, turned and shortened so that labels do not overlap.
struct Ticks {
  std::size_t step = 1;
  double font = 12;
  double turn = 0;    // degrees: 0, -45 or -90
  double extent = 0;  // pixels that the labels take perpendicular to the axis
};

/// The positions and sizes of all parts of a page, in pixels.
struct PageLayout {
  CellStyle cells;
  Ticks x_ticks, y_ticks;
  bool grid = false;
  bool edge_labels = false;  // only panels at the edge of the grid have tick labels
  std::size_t columns = 1;   // number of grid columns
  std::size_t rows = 1;
  std::vector<double> column_x;  // position of each grid column, relative to `left`
  std::vector<double> row_y;
  double left = 0;  // position of the first panel's cells
  double top = 0;
  double plot_width = 0;  // width of all panels together
  double plot_height = 0;
  double bar_x = 0;  // position of the colour bar
  double bar_y = 0;
  double bar_height = 0;
  double width = 0;  // size of the page
  double height = 0;
};

inline constexpr double title_font = 17;
inline constexpr double axis_font = 13;
inline constexpr double panel_title_font = 12;
inline constexpr double bar_width = 16;
inline constexpr double bar_font = 12;
inline constexpr double tick_length = 4;
inline constexpr std::size_t longest_label = 20;  // in characters

/// Returns label i as drawn: shortened, or the number i if there are no labels.
[[nodiscard]] std::string tick_label(const std::vector<std::string>& labels, std::size_t i);

/// Estimates the width of a text in the page's font.
[[nodiscard]] double text_width(std::string_view text, double font);

/// Computes the layout of a page whose heatmaps were checked.
[[nodiscard]] PageLayout lay_out(const HeatmapPage& page);

}  // namespace attnctl
