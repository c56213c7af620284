#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "report/svg/svg.hpp"
#include "report/svg/svg_canvas.hpp"

namespace attnctl {

/// The style of the cells of a heatmap.
struct CellStyle {
  double size = 0;         // side of a cell in pixels
  bool values = false;     // show the value in each cell
  bool pointable = false;  // draw each cell as an element with a tooltip: its labels and value
  std::span<const std::string> texts = {};  // [rows * columns], shown instead of the values; may be empty
};

/// Draws the cells of a heatmap. The upper left corner of the first cell is at (x, y).
void draw_cells(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapScale& scale, const CellStyle& style,
                double x, double y);

/// Formats a value for a cell: two decimals, no negative zero; empty if undefined.
[[nodiscard]] std::string cell_text(double value);

/// Returns the element at flat index i of an array of floats or doubles.
[[nodiscard]] double value_at(const Array& values, std::size_t i);

}  // namespace attnctl
