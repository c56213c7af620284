#include "attnctl/report/line_chart.hpp"

#include "attnctl/base/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/chart_axis.hpp"
#include "report/svg_canvas.hpp"
#include "report/svg_layout.hpp"

namespace attnctl {
namespace {

constexpr double plot_width = 360;
constexpr double plot_height = 230;
constexpr double left_room = 78;
constexpr double right_room = 24;
constexpr double title_room = 34;
constexpr double bottom_room = 48;
constexpr double legend_line = 17;
constexpr double page_title_room = 40;
constexpr double tick_font = 11;
constexpr std::size_t most_points = 100000;
/// Okabe and Ito's colours, told apart by colour-blind readers too.
constexpr std::array<std::string_view, 7> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                   "#e69f00", "#56b4e9", "#595959"};

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

struct Plot {
  const Chart* chart = nullptr;
  std::vector<Line> lines;
  ChartAxis x, y;
};

double number(const Cell& cell) {
  if (const auto* value = std::get_if<double>(&cell)) return *value;
  if (const auto* value = std::get_if<float>(&cell)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*value);
  return std::numeric_limits<double>::quiet_NaN();
}

std::size_t column_of(const Table& table, const std::string& name) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), name);
  if (found == table.columns.end())
    throw std::invalid_argument("a chart of a column that is missing: " + name);
  return static_cast<std::size_t>(found - table.columns.begin());
}

Plot plot_of(const Table& table, const Chart& chart) {
  Plot plot;
  plot.chart = &chart;
  const std::size_t x = column_of(table, chart.x);
  std::vector<std::size_t> columns;
  for (const std::string& name : chart.y) {
    columns.push_back(column_of(table, name));
    plot.lines.push_back({name, {}});
  }
  std::vector<double> xs;
  std::vector<double> ys;
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    const double at = number(cells[x]);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double value = number(cells[columns[i]]);
      if (!std::isfinite(at) || !std::isfinite(value)) continue;
      if ((chart.log_x && at <= 0) || (chart.log_y && value <= 0)) continue;
      plot.lines[i].points.emplace_back(at, value);
      xs.push_back(at);
      ys.push_back(value);
    }
  }
  plot.x = chart_axis(xs, chart.log_x);
  plot.y = chart_axis(ys, chart.log_y);
  return plot;
}

/// The upper left corner of a chart's frame.
struct Corner {
  double x = 0;
  double y = 0;
};

void draw_axes(SvgCanvas& canvas, const Plot& plot, Corner at) {
  canvas.frame(at.x, at.y, plot_width, plot_height);
  const double bottom = at.y + plot_height;
  for (const ChartAxis::Tick& tick : plot.x.ticks) {
    const double x = at.x + plot.x.place(tick.value) * plot_width;
    canvas.line(x, bottom, x, bottom + tick_length);
    canvas.text({x, bottom + tick_length + tick_font + 2, tick_font, "middle", 0, false}, tick.label);
  }
  for (const ChartAxis::Tick& tick : plot.y.ticks) {
    const double y = bottom - plot.y.place(tick.value) * plot_height;
    canvas.line(at.x - tick_length, y, at.x, y);
    canvas.text({at.x - tick_length - 3, y + tick_font * 0.36, tick_font, "end", 0, false}, tick.label);
  }
  canvas.text({at.x + plot_width / 2, bottom + 38, axis_font, "middle", 0, false}, plot.chart->x_axis);
  canvas.text({at.x - 60, at.y + plot_height / 2, axis_font, "middle", -90, false}, plot.chart->y_axis);
  canvas.text({at.x + plot_width / 2, at.y - 10, panel_title_font + 2, "middle", 0, true}, plot.chart->title);
}

void draw_lines(SvgCanvas& canvas, const Plot& plot, Corner at) {
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const std::string_view colour = kColours[i % kColours.size()];
    std::string path;
    std::string dots;
    for (const auto& [x, y] : plot.lines[i].points) {
      const std::string px = coordinate(at.x + plot.x.place(x) * plot_width);
      const std::string py = coordinate(at.y + (1 - plot.y.place(y)) * plot_height);
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", px, py);
      if (plot.lines[i].points.size() <= 64)
        dots += fmt::format(R"(<circle cx="{}" cy="{}" r="2.6"/>)", px, py);
    }
    if (path.empty()) continue;
    canvas.raw(
        fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n", path, colour));
    if (!dots.empty()) canvas.raw(fmt::format("<g fill=\"{}\">{}</g>\n", colour, dots));
  }
}

void draw_legend(SvgCanvas& canvas, const Plot& plot, Corner at) {
  if (plot.lines.size() < 2) return;
  double y = at.y + plot_height + bottom_room + legend_line * 0.4;
  for (std::size_t i = 0; i < plot.lines.size(); ++i, y += legend_line) {
    canvas.raw(fmt::format("<path d=\"M{} {}h22\" stroke=\"{}\" stroke-width=\"2.4\"/>\n", coordinate(at.x),
                           coordinate(y), kColours[i % kColours.size()]));
    canvas.text({at.x + 28, y + 4, 12, "start", 0, false}, plot.lines[i].name);
  }
}

}  // namespace

void write_svg(OutputFile& out, const std::string& title, const Table& table, std::span<const Chart> charts) {
  if (charts.empty()) throw std::invalid_argument("a page without charts");
  std::vector<Plot> plots;
  std::size_t points = 0;
  std::size_t most_lines = 0;
  for (const Chart& chart : charts) {
    plots.push_back(plot_of(table, chart));
    for (const Line& line : plots.back().lines) points += line.points.size();
    most_lines = std::max(most_lines, chart.y.size());
  }
  if (points > most_points) {
    fail(Status::limit, "{}: {} points, and svg draws at most {}: use --format csv or json", out.name(),
         points, most_points);
  }
  const std::size_t columns = std::min<std::size_t>(plots.size(), 2);
  const std::size_t rows = (plots.size() + columns - 1) / columns;
  const double legend = most_lines > 1 ? legend_line * static_cast<double>(most_lines) : 0;
  const double panel_width = left_room + plot_width + right_room;
  const double panel_height = title_room + plot_height + bottom_room + legend + 8;
  SvgCanvas canvas;
  for (std::size_t i = 0; i < plots.size(); ++i) {
    const std::size_t row = i / columns;
    const Corner at{static_cast<double>(i % columns) * panel_width + left_room,
                    page_title_room + static_cast<double>(row) * panel_height + title_room};
    draw_axes(canvas, plots[i], at);
    draw_lines(canvas, plots[i], at);
    draw_legend(canvas, plots[i], at);
  }
  const double width = panel_width * static_cast<double>(columns);
  canvas.text({width / 2, 28, title_font, "middle", 0, true}, title);
  out.write(canvas.document(width, page_title_room + panel_height * static_cast<double>(rows), title));
}

}  // namespace attnctl
