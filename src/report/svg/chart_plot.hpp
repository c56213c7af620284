#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/svg/chart_axis.hpp"
#include "report/svg/svg_canvas.hpp"
#include "results/result.hpp"

namespace attnctl {

inline constexpr double plot_width = 360;
inline constexpr double plot_height = 230;

/// A chart with its values and axes.
struct Plot {
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;  // (x, y); for bars (row index, value)
    std::vector<std::string> labels;                // one per point if the chart has labels
  };
  const Chart* chart = nullptr;
  std::vector<Series> series;
  std::vector<std::string> categories;  // for bars: one label per row
  ChartAxis x, y;

  [[nodiscard]] std::size_t points() const;
};

/// Throws std::invalid_argument if a column is missing.
[[nodiscard]] Plot plot_of(const Table& table, const Chart& chart);

/// The upper left corner of a chart's frame, in pixels.
struct PlotCorner {
  double x = 0;
  double y = 0;
};

/// Returns the colour of a series.
[[nodiscard]] std::string_view series_colour(std::size_t index);

void draw_lines(SvgCanvas& canvas, const Plot& plot, PlotCorner at);
void draw_bars(SvgCanvas& canvas, const Plot& plot, PlotCorner at);
void draw_points(SvgCanvas& canvas, const Plot& plot, PlotCorner at);

}  // namespace attnctl
