#include "report/svg/chart.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "report/svg/chart_axis.hpp"
#include "report/svg/chart_plot.hpp"
#include "report/svg/svg_canvas.hpp"
#include "report/svg/svg_layout.hpp"
#include "report/text/text_width.hpp"

namespace attnctl {
namespace {

constexpr double left_room = 78;
constexpr double right_room = 24;
constexpr double title_room = 34;
constexpr double bottom_room = 48;
constexpr double legend_line = 17;
constexpr double page_title_room = 40;
constexpr double tick_font = 11;
constexpr std::size_t most_points = 100000;

/// Draws the tick labels of the groups of bars: every step-th one, so that labels do not overlap.
void draw_categories(SvgCanvas& canvas, const Plot& plot, PlotCorner at) {
  double widest = 0;
  for (const std::string& label : plot.categories) {
    widest = std::max(widest, text_width(shortened(label, longest_label), tick_font));
  }
  const double group = plot_width / static_cast<double>(std::max<std::size_t>(plot.categories.size(), 1));
  const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil((widest + 2) / group)));
  const double bottom = at.y + plot_height;
  for (std::size_t i = 0; i < plot.categories.size(); i += step) {
    const double x = at.x + (static_cast<double>(i) + 0.5) * group;
    canvas.line(x, bottom, x, bottom + tick_length);
    canvas.text({x, bottom + tick_length + tick_font + 2, tick_font, "middle", 0, false},
                shortened(plot.categories[i], longest_label));
  }
}

void draw_axes(SvgCanvas& canvas, const Plot& plot, PlotCorner at) {
  canvas.frame(at.x, at.y, plot_width, plot_height);
  const double bottom = at.y + plot_height;
  if (plot.chart->bars) draw_categories(canvas, plot, at);
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

void draw_legend(SvgCanvas& canvas, const Plot& plot, PlotCorner at) {
  if (plot.series.size() < 2) return;
  double y = at.y + plot_height + bottom_room + legend_line * 0.4;
  for (std::size_t i = 0; i < plot.series.size(); ++i, y += legend_line) {
    canvas.raw(fmt::format("<path d=\"M{} {}h22\" stroke=\"{}\" stroke-width=\"2.4\"/>\n", coordinate(at.x),
                           coordinate(y), series_colour(i)));
    canvas.text({at.x + 28, y + 4, 12, "start", 0, false}, plot.series[i].name);
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
    points += plots.back().points();
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
    const PlotCorner at{static_cast<double>(i % columns) * panel_width + left_room,
                        page_title_room + static_cast<double>(row) * panel_height + title_room};
    draw_axes(canvas, plots[i], at);
    const auto draw = plots[i].chart->bars ? draw_bars : plots[i].chart->points ? draw_points : draw_lines;
    draw(canvas, plots[i], at);
    draw_legend(canvas, plots[i], at);
  }
  const double width = panel_width * static_cast<double>(columns);
  canvas.text({width / 2, 28, title_font, "middle", 0, true}, title);
  out.write(canvas.document(width, page_title_room + panel_height * static_cast<double>(rows), title));
}

}  // namespace attnctl
