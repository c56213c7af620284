#include "report/drawing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>

#include "base/text.hpp"

namespace attnctl::report {
namespace {

ChartAxis linear_axis(double low, double high) {
  constexpr double most_steps = 6;
  if (low == high) {
    const double space = low == 0 ? 1 : std::abs(low) / 2;
    low -= space;
    high += space;
  }
  const double step = round_step((high - low) / most_steps);
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  ChartAxis axis{.low = first * step, .high = last * step};
  const auto steps = static_cast<int>(last - first);
  for (int i = 0; i <= steps; ++i) axis.ticks.push_back((first + i) * step);
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
  ChartAxis axis{.low = std::pow(base, first), .high = std::pow(base, last), .logarithmic = true};
  const auto powers = static_cast<int>(last - first);
  const int step = (powers + 7) / 8;
  for (int i = 0; i <= powers; i += step) axis.ticks.push_back(std::pow(base, first + i));
  return axis;
}

std::string label(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const double value = number_of(cell);
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : std::string();
}

std::size_t column_of(const Table& table, const std::string& name) {
  const auto found = table.find(name);
  if (!found) throw std::invalid_argument("a chart of a column that is missing: " + name);
  return *found;
}

bool drawable(const Chart& chart, double x, double y) {
  if (!std::isfinite(x) || !std::isfinite(y)) return false;
  return chart.bars || ((!chart.log_x || x > 0) && (!chart.log_y || y > 0));
}

/// Adds a value below and a value above the range, so that the chart has space for the outermost points and
/// their labels.
void widen(std::vector<double>& values) {
  if (values.empty()) return;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double space = (*high - *low) / 20;
  values.insert(values.end(), {*low - space, *high + space});
}

/// Extends one axis so that both axes have the same scale and distances in the chart are meaningful. Does
/// nothing if the values would then fill only a small part of this axis.
void equalise(Plot& plot) {
  ChartAxis& x = plot.x;
  ChartAxis& y = plot.y;
  const double across = (x.high - x.low) / plot.width;
  const double upwards = (y.high - y.low) / plot.height;
  constexpr double kMost = 4;
  if (across > kMost * upwards || upwards > kMost * across) return;
  const auto stretch = [](ChartAxis& axis, double range) {
    const double more = (range - (axis.high - axis.low)) / 2;
    const double low = axis.low - more;
    const double high = axis.high + more;
    axis = {.low = low, .high = high, .ticks = linear_axis(low, high).ticks};
    std::erase_if(axis.ticks, [&](double tick) { return tick < low || tick > high; });
  };
  across < upwards ? stretch(x, upwards * plot.width) : stretch(y, across * plot.height);
}

constexpr Colour rgb(std::uint32_t code) {
  return {static_cast<std::uint8_t>(code >> 16U), static_cast<std::uint8_t>(code >> 8U & 0xFFU),
          static_cast<std::uint8_t>(code & 0xFFU)};
}

/// RdBu of ColorBrewer (Brewer and Harrower), reversed, with a white middle.
constexpr std::array kBlueWhiteRed{rgb(0x053061), rgb(0x2166ac), rgb(0x4393c3), rgb(0x92c5de),
                                   rgb(0xd1e5f0), rgb(0xffffff), rgb(0xfddbc7), rgb(0xf4a582),
                                   rgb(0xd6604d), rgb(0xb2182b), rgb(0x67001f)};
/// Like Blues of ColorBrewer, with a white low end, a middle that is dark enough for white text, and equal
/// steps of lightness (CIELAB L* from 100 to 21), so that equal differences of values look equal.
constexpr std::array kWhiteBlue{rgb(0xffffff), rgb(0xd3e5f3), rgb(0xa4cde3), rgb(0x79b3d6), rgb(0x4e99c9),
                                rgb(0x2d7dbb), rgb(0x1562a9), rgb(0x08488e), rgb(0x08306b)};
/// Viridis and magma of Smith and van der Walt (2015), and cividis of Nunez et al. (2018): nine of their 256
/// colours. Greys and PuOr of ColorBrewer.
constexpr std::array kViridis{rgb(0x440154), rgb(0x472d7b), rgb(0x3b528b), rgb(0x2c728e), rgb(0x21908c),
                              rgb(0x27ad81), rgb(0x5dc863), rgb(0xaadc32), rgb(0xfde725)};
constexpr std::array kMagma{rgb(0x000004), rgb(0x1d1147), rgb(0x51127c), rgb(0x822681), rgb(0xb63679),
                            rgb(0xe65164), rgb(0xfb8861), rgb(0xfec287), rgb(0xfcfdbf)};
constexpr std::array kCividis{rgb(0x00204c), rgb(0x01356e), rgb(0x404c6b), rgb(0x5f636e), rgb(0x7b7b78),
                              rgb(0x9b9377), rgb(0xbcae6e), rgb(0xdfcb5d), rgb(0xffe945)};
constexpr std::array kGreys{rgb(0xffffff), rgb(0xf0f0f0), rgb(0xd9d9d9), rgb(0xbdbdbd), rgb(0x969696),
                            rgb(0x737373), rgb(0x525252), rgb(0x252525), rgb(0x000000)};
constexpr std::array kPurpleOrange{rgb(0xb35806), rgb(0xe08214), rgb(0xfdb863), rgb(0xfee0b6), rgb(0xf7f7f7),
                                   rgb(0xd8daeb), rgb(0xb2abd2), rgb(0x8073ac), rgb(0x542788)};

constexpr std::array kColormaps{
    Colormap{"blues", kWhiteBlue, 0, 0.5},    Colormap{"rdbu_r", kBlueWhiteRed, 0.25, 0.75},
    Colormap{"viridis", kViridis, 0.6, 1},    Colormap{"magma", kMagma, 0.65, 1},
    Colormap{"cividis", kCividis, 0.6, 1},    Colormap{"greys", kGreys, 0, 0.5, "#fee0b6"},
    Colormap{"puor", kPurpleOrange, 0.1, 0.8}};

std::uint8_t mixed(std::uint8_t from, std::uint8_t to, double share) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * share));
}

/// The six levels of each colour in xterm's 6 x 6 x 6 colour cube.
constexpr std::array<int, 6> kCubeLevels{0, 95, 135, 175, 215, 255};

int nearest_level(int value) {
  const auto distance = [&](int level) { return std::abs(level - value); };
  return static_cast<int>(std::ranges::min_element(kCubeLevels, {}, distance) - kCubeLevels.begin());
}

}  // namespace

double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string tick_label(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size >= 1e6 || size < 1e-4)) return fmt::format("{:.3g}", value);
  return fmt::format("{:.6g}", value);
}

double ChartAxis::place(double value) const {
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

ChartAxis chart_axis(const std::vector<double>& values, bool logarithmic) {
  if (values.empty()) return logarithmic ? logarithmic_axis(1, 10) : linear_axis(0, 1);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return logarithmic ? logarithmic_axis(*low, *high) : linear_axis(*low, *high);
}

Plot plot_of(const Table& table, const Chart& chart) {
  Plot plot{.chart = chart};
  const std::size_t x = column_of(table, chart.x);
  std::vector<std::size_t> columns;
  for (const std::string& name : chart.y) {
    columns.push_back(column_of(table, name));
    std::string& shown = plot.series.emplace_back().name;
    shown = name;
    if (table.columns[columns.back()].definition != nullptr) std::ranges::replace(shown, '_', ' ');
  }
  std::vector<double> xs;
  std::vector<double> ys;
  const std::size_t labels = chart.labels.empty() ? x : column_of(table, chart.labels);
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    const double at = chart.bars ? static_cast<double>(row) : number_of(cells[x]);
    if (chart.bars) plot.categories.push_back(label(cells[x]));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double value = number_of(cells[columns[i]]);
      if (!drawable(chart, at, value)) continue;
      plot.series[i].points.emplace_back(at, value);
      if (chart.points && !chart.labels.empty()) plot.series[i].labels.push_back(label(cells[labels]));
      xs.push_back(at);
      ys.push_back(value);
    }
  }
  if (chart.points && xs.size() > 24) {
    plot.width *= 2;
    plot.height *= 2;
  }
  if (!ys.empty() && (chart.bars || !(chart.points || chart.log_y))) ys.push_back(0);
  if (chart.points) {
    widen(xs);
    widen(ys);
  }
  if (!chart.bars) plot.x = chart_axis(xs, chart.log_x);
  plot.y = chart_axis(ys, chart.log_y && !chart.bars);
  if (chart.points && !chart.log_x && !chart.log_y) equalise(plot);
  return plot;
}

std::vector<std::string> colormap_names() {
  return texts_of(kColormaps, &Colormap::name);
}

std::string list_colour(std::size_t index, std::size_t items) {
  if (items <= kColours.size()) return std::string(kColours[index]);
  const double place = 0.75 * static_cast<double>(index) / static_cast<double>(items - 1);
  return hex(colour_at(colormap(false), 0.25 + place));
}

const Colormap& colormap(bool diverging, std::string_view name) {
  if (name.empty()) return kColormaps[diverging ? 1 : 0];
  return *std::ranges::find(kColormaps, name, &Colormap::name);
}

Colour colour_at(const Colormap& map, double place) {
  const double scaled = std::clamp(place, 0.0, 1.0) * static_cast<double>(map.stops.size() - 1);
  const std::size_t before = std::min(static_cast<std::size_t>(scaled), map.stops.size() - 2);
  const double share = scaled - static_cast<double>(before);
  const Colour& from = map.stops[before];
  const Colour& to = map.stops[before + 1];
  return {mixed(from.red, to.red, share), mixed(from.green, to.green, share),
          mixed(from.blue, to.blue, share)};
}

int terminal_colour(Colour colour) {
  const std::array<int, 3> want{colour.red, colour.green, colour.blue};
  const auto distance = [&](const std::array<int, 3>& have) {
    int sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += (have[i] - want[i]) * (have[i] - want[i]);
    return sum;
  };
  std::array<int, 3> cube{};
  std::array<int, 3> levels{};
  for (std::size_t i = 0; i < 3; ++i) {
    cube[i] = nearest_level(want[i]);
    levels[i] = kCubeLevels[static_cast<std::size_t>(cube[i])];
  }
  const int mean = (want[0] + want[1] + want[2]) / 3;
  const int step = std::clamp((mean - 3) / 10, 0, 23);  // the greys are 8, 18, ..., 238
  const int grey = 8 + 10 * step;
  if (distance({grey, grey, grey}) < distance(levels)) return 232 + step;
  return 16 + 36 * cube[0] + 6 * cube[1] + cube[2];
}

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

}  // namespace attnctl::report
