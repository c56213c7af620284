#pragma once

#include <string>
#include <vector>

namespace attnctl {

/// An axis of a chart: its range and its ticks.
struct ChartAxis {
  struct Tick {
    double value = 0;
    std::string label;
  };
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;  // ascending, within the range

  /// Returns the position of a value on the axis: 0 at the low end, 1 at the high end.
  [[nodiscard]] double place(double value) const;
};

/// Returns an axis for these values, which must be finite (and positive for a logarithmic axis). The ends are
/// round numbers. A linear axis has four to eight ticks at 1, 2 or 5 times a power of ten. A logarithmic axis
/// has ticks at powers of ten, or of two if it spans less than two decades.
[[nodiscard]] ChartAxis chart_axis(const std::vector<double>& values, bool logarithmic);

}  // namespace attnctl
