#include "report/text/text_chart.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "report/svg/chart_plot.hpp"
#include "report/text/text_cells.hpp"
#include "report/text/text_width.hpp"

namespace attnctl {
namespace {

constexpr std::size_t most_width = 80;
constexpr std::size_t least_plot = 20;
constexpr std::size_t plot_lines = 12;
constexpr std::size_t longest_category = 20;
constexpr std::string_view kMarks = "*o+x#%@";

/// The characters of a plot. Later marks overwrite earlier ones.
class Grid {
 public:
  explicit Grid(std::size_t width) : lines_(plot_lines, std::string(width, ' ')) {}

  /// Puts a character at (x, y), both from 0 to 1; y points upwards.
  void mark(double x, double y, char character) {
    const auto place = [](double share, std::size_t count) {
      return static_cast<std::size_t>(
          std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(count - 1)));
    };
    lines_[plot_lines - 1 - place(y, plot_lines)][place(x, lines_.front().size())] = character;
  }
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

void draw_series(Grid& grid, const Plot& plot, const Plot::Series& series, char mark, std::size_t width) {
  const std::size_t end = plot.chart->points ? 0 : series.points.size();
  for (std::size_t i = 1; i < end; ++i) {  // draws dots between the points
    const double x0 = plot.x.place(series.points[i - 1].first);
    const double x1 = plot.x.place(series.points[i].first);
    const double y0 = plot.y.place(series.points[i - 1].second);
    const double y1 = plot.y.place(series.points[i].second);
    const auto steps = static_cast<int>(std::ceil(std::abs(x1 - x0) * static_cast<double>(width)));
    for (int s = 1; s < steps; ++s) grid.mark(x0 + (x1 - x0) * s / steps, y0 + (y1 - y0) * s / steps, '.');
  }
  for (const auto& [x, y] : series.points) grid.mark(plot.x.place(x), plot.y.place(y), mark);
}

void append_lines(std::string& text, const Plot& plot, const TextOptions& options) {
  const std::string high = plot.y.ticks.back().label;
  const std::string low = plot.y.ticks.front().label;
  const std::size_t indent = std::max(display_width(high), display_width(low)) + 1;
  const std::size_t room = std::min(options.width, most_width);
  const std::size_t width = std::max(least_plot, room - std::min(room, indent + 1));
  Grid grid(width);
  for (std::size_t i = 0; i < plot.series.size(); ++i)
    draw_series(grid, plot, plot.series[i], kMarks[i % kMarks.size()], width);
  for (std::size_t line = 0; line < plot_lines; ++line) {
    append_aligned(text, line == 0 ? high : line + 1 == plot_lines ? low : "", indent - 1, true);
    text += " |" + grid.lines()[line];
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  text += std::string(indent, ' ') + '+' + std::string(width, '-') + '\n';
  const std::string first = plot.x.ticks.front().label;
  const std::string last = plot.x.ticks.back().label;
  const std::string name = escaped(plot.chart->x_axis);
  const std::size_t used = display_width(first) + display_width(last) + display_width(name);
  const std::size_t blank = width > used ? width - used : 2;
  text += std::string(indent + 1, ' ') + first + std::string(blank / 2, ' ') + name +
          std::string(blank - blank / 2, ' ') + last + '\n';
  for (std::size_t i = 0; plot.series.size() > 1 && i < plot.series.size(); ++i) {
    text += fmt::format("{}{} {}", std::string(i == 0 ? indent + 1 : 3, ' '), kMarks[i % kMarks.size()],
                        escaped(plot.series[i].name));
  }
  if (plot.series.size() > 1) text += '\n';
}

void append_bars(std::string& text, const Plot& plot, const TextOptions& options) {
  std::size_t indent = 0;
  for (const std::string& category : plot.categories)
    indent = std::max(indent, display_width(shortened(escaped(category), longest_category)));
  const std::size_t room = std::min(options.width, most_width);
  constexpr std::size_t value_room = 10;
  const std::size_t used = indent + value_room + 2;
  const double width = static_cast<double>(std::max(least_plot, room - std::min(room, used)));
  const double zero = plot.y.place(0);
  std::vector<std::string> bars(plot.categories.size() * plot.series.size());
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    for (const auto& [row, value] : plot.series[i].points) {
      const double from = std::min(plot.y.place(value), zero) * width;
      const double to = std::max(plot.y.place(value), zero) * width;
      const auto blank = static_cast<std::size_t>(std::lround(from));
      const auto length = static_cast<std::size_t>(std::lround(to)) - blank;
      bars[static_cast<std::size_t>(row) * plot.series.size() + i] =
          std::string(blank, ' ') + std::string(length, kMarks[i % kMarks.size()]) +
          fmt::format(" {:.4g}", value);
    }
  }
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const bool first = i % plot.series.size() == 0;
    append_aligned(text,
                   first ? shortened(escaped(plot.categories[i / plot.series.size()]), longest_category) : "",
                   indent, false);
    text += " |" + bars[i];
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  for (std::size_t i = 0; plot.series.size() > 1 && i < plot.series.size(); ++i) {
    text += fmt::format("{}{} {}", std::string(i == 0 ? indent + 2 : 3, ' '), kMarks[i % kMarks.size()],
                        escaped(plot.series[i].name));
  }
  if (plot.series.size() > 1) text += '\n';
}

}  // namespace

void append_text_chart(std::string& text, const Table& table, const Chart& chart,
                       const TextOptions& options) {
  const Plot plot = plot_of(table, chart);
  text += strong(escaped(chart.title), options) + '\n';
  chart.bars ? append_bars(text, plot, options) : append_lines(text, plot, options);
}

}  // namespace attnctl
