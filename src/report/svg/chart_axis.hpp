#pragma once

#include <string>
#include <vector>

namespace attnctl {

/// An axis of a chart: its ends, and where its ticks stand.
struct ChartAxis {
  struct Tick {
    double value = 0;
    std::string label;
  };
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;  // ascending, within the ends

  /// 0 at the low end, 1 at the high one.
  [[nodiscard]] double place(double value) const;
};

/// The axis that shows these values, which are finite (and positive for a logarithmic one): ends on round
/// numbers, four to eight ticks at 1, 2 or 5 times a power of ten; on a logarithmic axis at powers of ten, or
/// of two where it spans less than two decades.
[[nodiscard]] ChartAxis chart_axis(const std::vector<double>& values, bool logarithmic);

}  // namespace attnctl
