#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/svg/svg.hpp"
#include "report/svg/svg_cells.hpp"

namespace attnctl {

/// The tick labels of one axis: every step-th, turned and cut so that they do not run into each other.
struct Ticks {
  std::size_t step = 1;
  double font = 12;
  double turn = 0;    // degrees: 0, -45 or -90
  double extent = 0;  // pixels that the labels take across the axis
};

/// Where everything of a page stands, in pixels.
struct PageLayout {
  CellStyle cells;
  Ticks x_ticks, y_ticks;
  bool grid = false;
  bool edge_labels = false;  // tick labels at the edge of the grid only
  std::size_t columns = 1;   // of the grid
  std::size_t rows = 1;
  std::vector<double> column_x;  // of the grid's columns, from the first one
  std::vector<double> row_y;
  double left = 0;  // of the first panel's cells
  double top = 0;
  double plot_width = 0;  // all panels
  double plot_height = 0;
  double bar_x = 0;  // the colour bar
  double bar_y = 0;
  double bar_height = 0;
  double width = 0;  // of the page
  double height = 0;
};

inline constexpr double title_font = 17;
inline constexpr double axis_font = 13;
inline constexpr double panel_title_font = 12;
inline constexpr double bar_width = 16;
inline constexpr double bar_font = 12;
inline constexpr double tick_length = 4;
inline constexpr std::size_t longest_label = 20;  // columns

/// The labels of an axis as they are drawn: cut, or numbers where there are none.
[[nodiscard]] std::string tick_label(const std::vector<std::string>& labels, std::size_t i);

/// The estimated width of a text in the page's font.
[[nodiscard]] double text_width(std::string_view text, double font);

/// The page's heatmaps have been checked.
[[nodiscard]] PageLayout lay_out(const HeatmapPage& page);

}  // namespace attnctl
