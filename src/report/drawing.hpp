#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/results.hpp"

// The values and axes of charts, and colours, which the writers of SVG and text draw.
namespace attnctl::report {

/// Returns the smallest number that is 1, 2 or 5 times a power of ten and at least `least`.
[[nodiscard]] double round_step(double least);

struct ChartAxis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<double> ticks = {};  // ascending, inside the range

  /// Returns the position of a value on the axis: 0 at the low end, 1 at the high end.
  [[nodiscard]] double place(double value) const;
};

[[nodiscard]] std::string tick_label(double value);

/// Returns an axis for these values, which must be finite, and positive if the axis is logarithmic. The ends
/// of the axis are round numbers. A linear axis has four to eight ticks at multiples of a step, which is 1, 2
/// or 5 times a power of ten. A logarithmic axis has at most nine ticks, at powers of ten, or at powers of
/// two if the values span less than two decades.
[[nodiscard]] ChartAxis chart_axis(const std::vector<double>& values, bool logarithmic);

struct Plot {
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points = {};  // (x, y), or (row index, value) for bars
    std::vector<std::string> labels = {};  // one per point; empty unless the chart has points and labels
  };
  const Chart& chart;
  std::vector<Series> series = {};
  std::vector<std::string> categories = {};  // one label per row; only for bars
  ChartAxis x = {}, y = {};
  double width = 360, height = 230;  // frame in SVG, in pixels; doubled for > 24 points (Chart::points)
};

/// Returns the values and axes of a chart, without values that are undefined, not finite, or not positive on
/// a logarithmic axis. The linear y axis of lines and bars contains 0. `chart` must outlive the result.
/// Throws std::invalid_argument if a column is missing.
[[nodiscard]] Plot plot_of(const Table& table, const Chart& chart);

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

/// Colours of series and letters: six of the palette of Okabe and Ito 2008 for readers with colour blindness,
/// grey, and three of Tol's palette "muted".
inline constexpr std::array<std::string_view, 10> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                           "#e69f00", "#882255", "#595959", "#332288",
                                                           "#999933", "#56b4e9"};

/// Returns the colour of item `index` of a list: one of kColours, or, if the list has more items, a shade
/// from light to dark.
[[nodiscard]] std::string list_colour(std::size_t index, std::size_t items);

/// The colours of a scale. The places on a scale are from 0 (low end) to 1 (high end).
struct Colormap {
  std::string_view name;
  std::span<const Colour> stops;     // evenly spaced, from the low end to the high end
  double light_from, light_to;       // text is white outside of these places
  const char* no_value = "#d9d9d9";  // colour of cells without a value
};
[[nodiscard]] std::vector<std::string> colormap_names();

/// Returns the colormap with this name, which must be one of colormap_names(). If `name` is empty, returns
/// rdbu_r for a diverging scale and blues for a sequential one.
[[nodiscard]] const Colormap& colormap(bool diverging, std::string_view name = {});

/// Returns the colour at this place. Interpolates linearly between the stops.
[[nodiscard]] Colour colour_at(const Colormap& map, double place);

/// Returns the most similar of the 216 colours and 24 greys of a 256-colour terminal, as a code from 16 to
/// 255.
[[nodiscard]] int terminal_colour(Colour colour);

[[nodiscard]] std::string hex(Colour colour);

}  // namespace attnctl::report
