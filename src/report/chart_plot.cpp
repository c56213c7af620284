#include "report/chart_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace attnctl {
namespace {

/// Okabe and Ito's colours, told apart by colour-blind readers too.
constexpr std::array<std::string_view, 7> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                   "#e69f00", "#56b4e9", "#595959"};

double number(const Cell& cell) {
  if (const auto* value = std::get_if<double>(&cell)) return *value;
  if (const auto* value = std::get_if<float>(&cell)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*value);
  return std::numeric_limits<double>::quiet_NaN();
}

std::string label(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const double value = number(cell);
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : std::string();
}

std::size_t column_of(const Table& table, const std::string& name) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), name);
  if (found == table.columns.end())
    throw std::invalid_argument("a chart of a column that is missing: " + name);
  return static_cast<std::size_t>(found - table.columns.begin());
}

bool drawable(const Chart& chart, double x, double y) {
  if (!std::isfinite(x) || !std::isfinite(y)) return false;
  return chart.bars || ((!chart.log_x || x > 0) && (!chart.log_y || y > 0));
}

}  // namespace

std::size_t Plot::points() const {
  std::size_t count = 0;
  for (const Series& each : series) count += each.points.size();
  return count;
}

Plot plot_of(const Table& table, const Chart& chart) {
  Plot plot;
  plot.chart = &chart;
  const std::size_t x = column_of(table, chart.x);
  std::vector<std::size_t> columns;
  for (const std::string& name : chart.y) {
    columns.push_back(column_of(table, name));
    plot.series.push_back({name, {}});
  }
  std::vector<double> xs;
  std::vector<double> ys;
  if (chart.bars) ys.push_back(0);
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    const double at = chart.bars ? static_cast<double>(row) : number(cells[x]);
    if (chart.bars) plot.categories.push_back(label(cells[x]));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double value = number(cells[columns[i]]);
      if (!drawable(chart, at, value)) continue;
      plot.series[i].points.emplace_back(at, value);
      xs.push_back(at);
      ys.push_back(value);
    }
  }
  if (!chart.bars) plot.x = chart_axis(xs, chart.log_x);
  plot.y = chart_axis(ys, chart.log_y && !chart.bars);
  return plot;
}

std::string_view series_colour(std::size_t index) {
  return kColours[index % kColours.size()];
}

void draw_lines(SvgCanvas& canvas, const Plot& plot, PlotCorner at) {
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const std::string_view colour = series_colour(i);
    std::string path;
    std::string dots;
    for (const auto& [x, y] : plot.series[i].points) {
      const std::string px = coordinate(at.x + plot.x.place(x) * plot_width);
      const std::string py = coordinate(at.y + (1 - plot.y.place(y)) * plot_height);
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", px, py);
      if (plot.series[i].points.size() <= 64)
        dots += fmt::format(R"(<circle cx="{}" cy="{}" r="2.6"/>)", px, py);
    }
    if (path.empty()) continue;
    canvas.raw(
        fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n", path, colour));
    if (!dots.empty()) canvas.raw(fmt::format("<g fill=\"{}\">{}</g>\n", colour, dots));
  }
}

void draw_bars(SvgCanvas& canvas, const Plot& plot, PlotCorner at) {
  constexpr double kFilled = 0.8;  // of a group's room
  const double group = plot_width / static_cast<double>(std::max<std::size_t>(plot.categories.size(), 1));
  const double width = group * kFilled / static_cast<double>(std::max<std::size_t>(plot.series.size(), 1));
  const double zero = plot.y.place(0);
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    canvas.raw(fmt::format("<g fill=\"{}\">\n", series_colour(i)));
    for (const auto& [row, value] : plot.series[i].points) {
      const double left = at.x + (row + (1 - kFilled) / 2) * group + static_cast<double>(i) * width;
      const double top = std::max(plot.y.place(value), zero);
      const double bottom = std::min(plot.y.place(value), zero);
      canvas.raw(
          fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}"><title>{}, {}: {:.4g}</title></rect>)",
                      coordinate(left), coordinate(at.y + (1 - top) * plot_height), coordinate(width),
                      coordinate((top - bottom) * plot_height),
                      xml_escaped(plot.categories[static_cast<std::size_t>(row)]),
                      xml_escaped(plot.series[i].name), value));
      canvas.raw("\n");
    }
    canvas.raw("</g>\n");
  }
  if (zero > 0) {
    const double y = at.y + (1 - zero) * plot_height;
    canvas.line(at.x, y, at.x + plot_width, y);
  }
}

}  // namespace attnctl
