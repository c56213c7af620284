#include "report/svg/chart_axis.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace attnctl {
namespace {

std::string label_of(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size >= 1e6 || size < 1e-4)) return fmt::format("{:.3g}", value);
  return fmt::format("{:.6g}", value);
}

/// Returns the smallest number that is 1, 2 or 5 times a power of ten and at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

ChartAxis linear_axis(double low, double high) {
  constexpr double most_steps = 6;
  if (low == high) {
    const double room = low == 0 ? 1 : std::abs(low) / 2;
    low -= room;
    high += room;
  }
  // An axis of non-negative values that begins near 0 begins at 0.
  if (low > 0 && low < (high - low)) low = 0;
  const double step = round_step((high - low) / most_steps);
  ChartAxis axis;
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  axis.low = first * step;
  axis.high = last * step;
  const auto steps = static_cast<int>(last - first);
  for (int i = 0; i <= steps; ++i) {
    const double value = (first + i) * step;
    axis.ticks.push_back({value, label_of(value)});
  }
  return axis;
}

ChartAxis logarithmic_axis(double low, double high) {
  const double base = high / low < 100 ? 2 : 10;
  const auto power_of = [base](double value) { return std::log(value) / std::log(base); };
  double first = std::floor(power_of(low) + 1e-9);
  double last = std::ceil(power_of(high) - 1e-9);
  if (first == last) {
    --first;
    ++last;
  }
  ChartAxis axis;
  axis.logarithmic = true;
  axis.low = std::pow(base, first);
  axis.high = std::pow(base, last);
  const auto powers = static_cast<int>(last - first);
  const int step = (powers + 7) / 8;
  for (int i = 0; i <= powers; i += step) {
    const double value = std::pow(base, first + i);
    axis.ticks.push_back({value, label_of(value)});
  }
  return axis;
}

}  // namespace

double ChartAxis::place(double value) const {
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

ChartAxis chart_axis(const std::vector<double>& values, bool logarithmic) {
  if (values.empty()) return logarithmic ? logarithmic_axis(1, 10) : linear_axis(0, 1);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return logarithmic ? logarithmic_axis(*low, *high) : linear_axis(*low, *high);
}

}  // namespace attnctl
