#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "report/drawing.hpp"
#include "report/svg_canvas.hpp"
#include "report/text.hpp"
#include "report/writers.hpp"

namespace attnctl::report {
namespace {

constexpr double kLeftSpace = 78;
constexpr double kRightSpace = 24;
constexpr double kChartTitleSpace = 34;
constexpr double kBottomSpace = 48;
constexpr double kLegendLine = 17;
constexpr double kPageTitleSpace = 40;
constexpr double kTickFont = 11;
constexpr std::size_t kMaxPoints = 100000;

/// Returns the position of the point (x, y) on the page. `corner` is the upper left corner of the chart's
/// frame.
SvgPoint place_of(const Plot& plot, SvgPoint corner, double x, double y) {
  return {corner.x + plot.x.place(x) * plot.width, corner.y + (1 - plot.y.place(y)) * plot.height};
}

struct Box {
  double left, top, right, bottom;
};

bool overlap(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

/// Draws the convex polygon whose corners are the points of the first series.
void draw_outline(SvgCanvas& canvas, const Plot& plot, SvgPoint at) {
  std::vector<std::complex<double>> corners;
  for (const auto& [x, y] : plot.series.front().points)
    corners.emplace_back(place_of(plot, at, x, y).x, place_of(plot, at, x, y).y);
  const auto centre = std::accumulate(corners.begin(), corners.end(), std::complex<double>()) /
                      static_cast<double>(corners.size());
  std::ranges::sort(corners, {}, [&](const auto& corner) { return std::arg(corner - centre); });
  canvas.raw("<polygon points=\"");
  for (const auto& corner : corners)
    canvas.add("{},{} ", coordinate(corner.real()), coordinate(corner.imag()));
  canvas.add("\" fill=\"{0}\" fill-opacity=\"0.1\" stroke=\"{0}\"/>\n", list_colour(0, plot.series.size()));
}

void draw_points(SvgCanvas& canvas, const Plot& plot, SvgPoint at) {
  constexpr double kRadius = 4;
  constexpr double kFont = 11;
  constexpr std::size_t kDirections = 16;
  if (plot.chart.outline) draw_outline(canvas, plot, at);
  std::vector<Box> taken;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    canvas.add("<g fill=\"{}\">", list_colour(i, plot.series.size()));
    for (std::size_t p = 0; p < plot.series[i].points.size(); ++p) {
      const auto& [x, y] = plot.series[i].points[p];
      const SvgPoint place = place_of(plot, at, x, y);
      const std::string title = plot.series[i].labels.empty() ? "" : plot.series[i].labels[p];
      canvas.add(R"(<circle cx="{}" cy="{}" r="{}"><title>{}</title></circle>)", coordinate(place.x),
                 coordinate(place.y), kRadius, xml_escaped(title));
      taken.push_back({place.x - kRadius, place.y - kRadius, place.x + kRadius, place.y + kRadius});
    }
    canvas.raw("</g>\n");
  }
  canvas.raw("<g paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"3\">\n");  // white outline of the text
  for (const Plot::Series& series : plot.series) {
    for (std::size_t p = 0; p < series.labels.size(); ++p) {
      const SvgPoint place = place_of(plot, at, series.points[p].first, series.points[p].second);
      const std::string text = shortened(escaped(series.labels[p]), kMaxLabel);
      const double width = text_width(text, kFont);
      // Tries directions from the right clockwise, at growing distances. Uses the first position that is free
      // and inside the frame. A line leads to a distant label.
      for (std::size_t i = 0; i < kDirections * (taken.size() > 1000 ? 1 : 30); ++i) {
        const std::size_t ring = i / kDirections;
        const double distance = 7 * static_cast<double>(ring + 1);
        const double angle = static_cast<double>(i % kDirections) * 2 * std::numbers::pi / kDirections;
        const double x = place.x + distance * std::cos(angle) + (std::cos(angle) - 1) * width / 2;
        const double y = place.y + (distance + 5) * std::sin(angle) + 4;
        const Box box{x, y - kFont * 0.8, x + width, y + kFont * 0.25};
        const bool inside = box.left > at.x && box.right < at.x + plot.width && box.top > at.y &&
                            box.bottom < at.y + plot.height;
        if (!inside || std::ranges::any_of(taken, [&](const Box& other) { return overlap(box, other); }))
          continue;
        if (i >= kDirections) {
          canvas.add("<path d=\"M{} {}L{} {}\" stroke=\"#a0a0a0\" stroke-width=\"0.7\"/>\n",
                     coordinate(place.x), coordinate(place.y),
                     coordinate(std::clamp(place.x, box.left, box.right)),
                     coordinate(std::clamp(place.y, box.top, box.bottom)));
        }
        canvas.text({x, y, kFont, "start"}, text);
        taken.push_back(box);
        break;
      }
    }
  }
  canvas.raw("</g>\n");
}

void draw_lines(SvgCanvas& canvas, const Plot& plot, SvgPoint at) {
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const std::string colour = list_colour(i, plot.series.size());
    std::string path;
    std::string dots;
    for (const auto& [x, y] : plot.series[i].points) {
      const SvgPoint place = place_of(plot, at, x, y);
      const std::string px = coordinate(place.x);
      const std::string py = coordinate(place.y);
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", px, py);
      if (plot.series[i].points.size() <= 64)
        dots += fmt::format(R"(<circle cx="{}" cy="{}" r="2.6"/>)", px, py);
    }
    if (path.empty()) continue;
    canvas.add("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n", path, colour);
    if (!dots.empty()) canvas.add("<g fill=\"{}\">{}</g>\n", colour, dots);
  }
}

void draw_bars(SvgCanvas& canvas, const Plot& plot, SvgPoint at) {
  constexpr double kFilled = 0.8;  // fraction of a group's width that the bars fill
  const double group = plot.width / static_cast<double>(std::max<std::size_t>(plot.categories.size(), 1));
  const double width = group * kFilled / static_cast<double>(std::max<std::size_t>(plot.series.size(), 1));
  const double zero = plot.y.place(0);
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    canvas.add("<g fill=\"{}\">\n", list_colour(i, plot.series.size()));
    for (const auto& [row, value] : plot.series[i].points) {
      const double left = at.x + (row + (1 - kFilled) / 2) * group + static_cast<double>(i) * width;
      const double top = std::max(plot.y.place(value), zero);
      const double bottom = std::min(plot.y.place(value), zero);
      canvas.add(R"(<rect x="{}" y="{}" width="{}" height="{}"><title>{}, {}: {:.4g}</title></rect>)",
                 coordinate(left), coordinate(at.y + (1 - top) * plot.height), coordinate(width),
                 coordinate((top - bottom) * plot.height),
                 xml_escaped(plot.categories[static_cast<std::size_t>(row)]),
                 xml_escaped(plot.series[i].name), value);
      canvas.raw("\n");
    }
    canvas.raw("</g>\n");
  }
  if (zero > 0) {
    const double y = at.y + (1 - zero) * plot.height;
    canvas.line(at.x, y, at.x + plot.width, y);
  }
}

/// The labels of the groups of bars. If they would overlap, all are turned by 45 degrees, or, if there is not
/// enough space for that, only every second, third, ... is drawn.
struct CategoryLabels {
  std::size_t step = 1;
  double turned = 0;  // additional height of turned labels; 0 if labels are not turned
};

double group_width(const Plot& plot) {
  return plot.width / static_cast<double>(std::max<std::size_t>(plot.categories.size(), 1));
}

CategoryLabels category_labels(const Plot& plot) {
  double widest = 0;
  for (const std::string& label : plot.categories)
    widest = std::max(widest, text_width(shortened(label, kMaxLabel), kTickFont));
  const double group = group_width(plot);
  if (widest + 2 <= group) return {};
  const double extent = (widest + kTickFont) * std::sqrt(0.5);
  if (group >= kTickFont * 1.8 && extent < kLeftSpace) return {.turned = extent - kTickFont};
  return {.step = static_cast<std::size_t>(std::ceil((widest + 2) / group))};
}

void draw_categories(SvgCanvas& canvas, const Plot& plot, SvgPoint at) {
  const CategoryLabels labels = category_labels(plot);
  const double bottom = at.y + plot.height;
  for (std::size_t i = 0; i < plot.categories.size(); i += labels.step) {
    const double x = at.x + (static_cast<double>(i) + 0.5) * group_width(plot);
    const std::string label = shortened(plot.categories[i], kMaxLabel);
    canvas.x_tick(x, bottom, kTickFont, labels.turned > 0 ? "" : label);
    if (labels.turned > 0)
      canvas.text({x + kTickFont * 0.36, bottom + kTickLength + 4 + kTickFont * 0.3, kTickFont, "end", -45},
                  label);
  }
}

void draw_axes(SvgCanvas& canvas, const Plot& plot, SvgPoint at) {
  canvas.frame(at.x, at.y, plot.width, plot.height);
  const double bottom = at.y + plot.height;
  if (plot.chart.bars) draw_categories(canvas, plot, at);
  for (const double tick : plot.x.ticks)
    canvas.x_tick(at.x + plot.x.place(tick) * plot.width, bottom, kTickFont, tick_label(tick));
  for (const double tick : plot.y.ticks)
    canvas.y_tick(at.x, bottom - plot.y.place(tick) * plot.height, kTickFont, tick_label(tick));
  canvas.text({at.x + plot.width / 2, bottom + 38 + category_labels(plot).turned, kAxisFont},
              plot.chart.x_axis);
  canvas.text({at.x - 60, at.y + plot.height / 2, kAxisFont, "middle", -90}, plot.chart.y_axis);
  canvas.text({at.x + plot.width / 2, at.y - 10, kPanelTitleFont + 2, "middle", 0, true}, plot.chart.title);
}

void draw_legend(SvgCanvas& canvas, const Plot& plot, SvgPoint at) {
  if (plot.series.size() < 2) return;
  double y = at.y + plot.height + category_labels(plot).turned + kBottomSpace + kLegendLine * 0.4;
  for (std::size_t i = 0; i < plot.series.size(); ++i, y += kLegendLine) {
    const std::string colour = list_colour(i, plot.series.size());
    if (plot.chart.points)
      canvas.add("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/>\n", coordinate(at.x + 11), coordinate(y),
                 colour);
    else
      canvas.add("<path d=\"M{} {}h22\" stroke=\"{}\" stroke-width=\"{}\"/>\n", coordinate(at.x),
                 coordinate(y), colour, plot.chart.bars ? "10" : "2.4");
    canvas.text({at.x + 28, y + 4, 12, "start"}, plot.series[i].name);
  }
}

/// Ends the x axis of lines at their first and last points, so that no part of the chart is empty, if two
/// ticks remain.
void fit_x_axis(Plot& plot) {
  if (plot.chart.bars || plot.chart.points) return;
  ChartAxis fitted = plot.x;
  fitted.low = plot.x.high;
  fitted.high = plot.x.low;
  for (const Plot::Series& series : plot.series) {
    for (const auto& [x, y] : series.points) {
      fitted.low = std::min(fitted.low, x);
      fitted.high = std::max(fitted.high, x);
    }
  }
  const double slack = 1e-9 * (plot.x.high - plot.x.low);
  std::erase_if(fitted.ticks,
                [&](double tick) { return tick < fitted.low - slack || tick > fitted.high + slack; });
  if (fitted.ticks.size() >= 2) plot.x = fitted;
}

/// Gives charts that have the same label of the y axis the same y axis.
void share_y_axes(std::vector<Plot>& plots) {
  for (Plot& plot : plots) {
    std::vector<double> ends;
    for (const Plot& other : plots) {
      if (!other.chart.points && other.chart.y_axis == plot.chart.y_axis &&
          other.y.logarithmic == plot.y.logarithmic)
        ends.insert(ends.end(), {other.y.low, other.y.high});
    }
    if (!plot.chart.points) plot.y = chart_axis(ends, plot.y.logarithmic);
  }
}

/// Returns the height of the legend of a chart and of its turned labels.
double space_below(const Plot& plot) {
  const std::size_t lines = plot.series.size() > 1 ? plot.series.size() : 0;
  return kLegendLine * static_cast<double>(lines) + category_labels(plot).turned;
}

/// Returns the least factor, at most 1, on the size of a chart that leaves space for its texts.
double least_factor(const Plot& plot) {
  double label = 0;
  for (const double tick : plot.x.ticks) label = std::max(label, text_width(tick_label(tick), kTickFont));
  double width = std::max({text_width(plot.chart.title, kPanelTitleFont + 2, true),
                           text_width(plot.chart.x_axis, kAxisFont),
                           (label + 6) * static_cast<double>(plot.x.ticks.size())});
  for (const Plot::Series& series : plot.series) width = std::max(width, 28 + text_width(series.name, 12));
  const double height = std::max(text_width(plot.chart.y_axis, kAxisFont),
                                 2 * kTickFont * static_cast<double>(plot.y.ticks.size()));
  return std::min(std::max(width / plot.width, height / plot.height), 1.0);
}

}  // namespace

void write_picture(OutputFile& out, ChartPage page, PictureFormat format, const PictureOptions& options) {
  page.title = options.title.value_or(page.title);
  if (options.title) page.subtitle.clear();
  if (page.charts.empty()) throw std::invalid_argument("a page without charts");
  std::vector<Plot> plots;
  std::size_t points = 0;
  double factor = 1 / options.zoom();  // on the sizes of all charts
  for (const Chart& chart : page.charts) {
    Plot plot = plot_of(page.table, chart);
    std::size_t count = 0;
    for (const Plot::Series& series : plot.series) count += series.points.size();
    const bool last_chance = plots.empty() && &chart == &page.charts.back();
    if (count == 0 && !last_chance) continue;  // leaves out empty charts, unless all are empty
    points += count;
    fit_x_axis(plot);
    factor = std::max(factor, least_factor(plot));
    plots.push_back(std::move(plot));
  }
  share_y_axes(plots);
  if (points > kMaxPoints) {
    fail(Status::limit,
         "{}: the charts have {} points, and a picture can show at most {}; use --format csv or json",
         out.name(), points, kMaxPoints);
  }
  for (Plot& plot : plots) {
    plot.width *= factor;
    plot.height *= factor;
  }
  const std::size_t columns = std::min<std::size_t>(plots.size(), 2);
  const Plot& largest = *std::ranges::max_element(plots, {}, &Plot::width);
  const double panel_width = kLeftSpace + largest.width + kRightSpace;
  const double panel_height = kChartTitleSpace + largest.height + kBottomSpace + 8;
  const double charts = panel_width * static_cast<double>(columns);
  const double width = std::max(charts, text_width(page.title, kTitleFont, true) + 32);
  const std::vector<std::string> subtitle = subtitle_lines(page.subtitle, width - kLeftSpace);
  const auto lines = static_cast<double>(subtitle.size());
  double top = (page.title.empty() ? 16 : kPageTitleSpace) + kSubtitleLine * lines;
  double below = 0;  // space_below() of the current row of charts
  SvgCanvas canvas;
  for (std::size_t i = 0; i < plots.size(); ++i) {
    if (i > 0 && i % columns == 0) top += panel_height + std::exchange(below, 0);
    below = std::max(below, space_below(plots[i]));
    const SvgPoint at{(width - charts) / 2 + static_cast<double>(i % columns) * panel_width + kLeftSpace,
                      top + kChartTitleSpace};
    draw_axes(canvas, plots[i], at);
    const auto draw = plots[i].chart.bars ? draw_bars : plots[i].chart.points ? draw_points : draw_lines;
    draw(canvas, plots[i], at);
    draw_legend(canvas, plots[i], at);
  }
  canvas.titles(width / 2, page.title, subtitle);
  const double height = top + panel_height + below;
  write_svg_as(out, canvas.document(out.name(), width, height, page.title, options), format, options);
}

}  // namespace attnctl::report
