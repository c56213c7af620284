#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "report/svg/svg.hpp"
#include "report/svg/svg_canvas.hpp"

namespace attnctl {

/// How the cells of a heatmap are drawn.
struct CellStyle {
  double size = 0;                          // pixels of a side
  bool values = false;                      // the number in each cell
  bool pointable = false;                   // an element for each cell, which tells its labels and value
  std::span<const std::string> texts = {};  // [rows * columns], in the place of numbers; or none at all
};

/// Draws the cells of a heatmap with its first cell's corner at (x, y).
void draw_cells(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapScale& scale, const CellStyle& style,
                double x, double y);

/// The number as cells show it: two decimals, no negative zero; empty where undefined.
[[nodiscard]] std::string cell_text(double value);

/// The element at flat index i of an array of floats or doubles.
[[nodiscard]] double value_at(const Array& values, std::size_t i);

}  // namespace attnctl
