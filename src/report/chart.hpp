#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "results/results.hpp"

// The values and axes of a chart, which the writers of SVG and text draw.
namespace attnctl::report {

/// An axis of a chart: its range and ticks.
struct ChartAxis {
  struct Tick {
    double value = 0;
    std::string label;
  };
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;  // ascending, inside the range

  /// Returns the position of a value on the axis: 0 at the low end, 1 at the high end.
  [[nodiscard]] double place(double value) const;
};

/// Returns an axis for these values, which must be finite, and positive if the axis is logarithmic. The ends
/// of the axis are round numbers. A linear axis has four to eight ticks at multiples of a step, which is 1, 2
/// or 5 times a power of ten. A logarithmic axis has at most nine ticks, at powers of ten, or at powers of
/// two if the values span less than two decades.
[[nodiscard]] ChartAxis chart_axis(const std::vector<double>& values, bool logarithmic);

inline constexpr double kPlotWidth = 360;  // width and height of the frame of a chart in SVG, in pixels
inline constexpr double kPlotHeight = 230;

/// A chart with its values and axes.
struct Plot {
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;  // (x, y), or (row index, value) for bars
    std::vector<std::string> labels;  // one per point; empty unless the chart has points and labels
  };
  const Chart* chart = nullptr;
  std::vector<Series> series;
  std::vector<std::string> categories;  // one label per row; only for bars
  ChartAxis x, y;
};

/// Returns the values and axes of a chart, without values that are undefined, not finite, or not positive on
/// a logarithmic axis. `chart` must outlive the result. Throws std::invalid_argument if a column is missing.
[[nodiscard]] Plot plot_of(const Table& table, const Chart& chart);

}  // namespace attnctl::report
