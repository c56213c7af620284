#include "report/svg/chart_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "base/error.hpp"
#include "report/svg/svg_layout.hpp"
#include "report/text/text_width.hpp"

namespace attnctl {
namespace {

/// Colours that colour-blind readers can distinguish. Source: Okabe and Ito 2008.
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

/// Extends the range on both sides, so that there is space for the outermost points and their labels.
void widen(std::vector<double>& values) {
  if (values.empty()) return;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double room = (*high - *low) / 20;
  const double ends[] = {*low - room, *high + room};
  values.insert(values.end(), std::begin(ends), std::end(ends));
}

/// Gives both axes the same scale, so that distances in the chart are meaningful. Does nothing if one axis
/// would shrink to almost nothing.
void equalise(ChartAxis& x, ChartAxis& y) {
  const double across = (x.high - x.low) / plot_width;
  const double upwards = (y.high - y.low) / plot_height;
  constexpr double kMost = 4;
  if (across > kMost * upwards || upwards > kMost * across) return;
  const auto stretch = [](ChartAxis& axis, double range) {
    const double more = (range - (axis.high - axis.low)) / 2;
    axis.low -= more;
    axis.high += more;
  };
  across < upwards ? stretch(x, upwards * plot_width) : stretch(y, across * plot_height);
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
    plot.series.push_back({name, {}, {}});
  }
  std::vector<double> xs;
  std::vector<double> ys;
  if (chart.bars) ys.push_back(0);
  const std::size_t labels = chart.labels.empty() ? x : column_of(table, chart.labels);
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    const double at = chart.bars ? static_cast<double>(row) : number(cells[x]);
    if (chart.bars) plot.categories.push_back(label(cells[x]));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double value = number(cells[columns[i]]);
      if (!drawable(chart, at, value)) continue;
      plot.series[i].points.emplace_back(at, value);
      if (chart.points && !chart.labels.empty()) plot.series[i].labels.push_back(label(cells[labels]));
      xs.push_back(at);
      ys.push_back(value);
    }
  }
  if (chart.points) {
    widen(xs);
    widen(ys);
  }
  if (!chart.bars) plot.x = chart_axis(xs, chart.log_x);
  plot.y = chart_axis(ys, chart.log_y && !chart.bars);
  if (chart.points && !chart.log_x && !chart.log_y) equalise(plot.x, plot.y);
  return plot;
}

namespace {

struct Box {
  double left, top, right, bottom;
};

bool overlap(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

}  // namespace

void draw_points(SvgCanvas& canvas, const Plot& plot, PlotCorner at) {
  constexpr double kRadius = 4;
  constexpr double kFont = 11;
  std::vector<Box> taken;
  const auto pixel = [&](const std::pair<double, double>& point) {
    return PlotCorner{at.x + plot.x.place(point.first) * plot_width,
                      at.y + (1 - plot.y.place(point.second)) * plot_height};
  };
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    canvas.raw(fmt::format("<g fill=\"{}\">", series_colour(i)));
    for (std::size_t p = 0; p < plot.series[i].points.size(); ++p) {
      const PlotCorner place = pixel(plot.series[i].points[p]);
      const std::string title = plot.series[i].labels.empty() ? "" : plot.series[i].labels[p];
      canvas.raw(fmt::format(R"(<circle cx="{}" cy="{}" r="{}"><title>{}</title></circle>)",
                             coordinate(place.x), coordinate(place.y), kRadius, xml_escaped(title)));
      taken.push_back({place.x - kRadius, place.y - kRadius, place.x + kRadius, place.y + kRadius});
    }
    canvas.raw("</g>\n");
  }
  for (const Plot::Series& series : plot.series) {
    for (std::size_t p = 0; p < series.labels.size(); ++p) {
      const PlotCorner place = pixel(series.points[p]);
      const std::string text = shortened(escaped(series.labels[p]), longest_label);
      const double width = text_width(text, kFont);
      // Tries the positions right, left, above and below; takes the first one that is free and inside the
      // frame.
      for (const auto& [x, y] :
           {std::pair(place.x + 7, place.y + 4), std::pair(place.x - 7 - width, place.y + 4),
            std::pair(place.x - width / 2, place.y - 8), std::pair(place.x - width / 2, place.y + 16)}) {
        const Box box{x, y - kFont * 0.8, x + width, y + kFont * 0.25};
        const bool inside = box.left > at.x && box.right < at.x + plot_width && box.top > at.y &&
                            box.bottom < at.y + plot_height;
        if (!inside || std::ranges::any_of(taken, [&](const Box& other) { return overlap(box, other); }))
          continue;
        canvas.text({x, y, kFont, "start", 0, false}, text);
        taken.push_back(box);
        break;
      }
    }
  }
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
  constexpr double kFilled = 0.8;  // share of a group's width that bars fill
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
