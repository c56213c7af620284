#include "report/text.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include "base/text.hpp"
#include "report/drawing.hpp"

namespace attnctl::report {
namespace {

constexpr std::size_t kTableGap = 2;  // terminal columns between columns of a table
constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

struct TextColumn {
  bool numeric = true;
  bool has_values = false;
  double largest = 0;  // largest magnitude of the finite floating-point numbers
  std::size_t width = 0;
};

int digits_for(double largest) {
  constexpr int usual = 3;
  constexpr int most = 8;
  if (largest == 0 || largest >= 0.1) return usual;
  return std::clamp(2 - static_cast<int>(std::floor(std::log10(largest))), usual, most);
}

void examine(TextColumn& column, const Cell& cell) {
  const bool text = std::holds_alternative<std::string>(cell);
  column.has_values |= text || std::isfinite(number_of(cell));
  std::visit(
      Overloaded{[&](bool) { column.numeric = false; }, [&](const std::string&) { column.numeric = false; },
                 [&](std::floating_point auto value) {
                   const double magnitude = std::abs(double{value});
                   if (std::isfinite(magnitude)) column.largest = std::max(column.largest, magnitude);
                 },
                 [](auto) {}},
      cell);
}

std::string text_of(const Cell& cell, int digits) {
  return std::visit(Overloaded{[](std::monostate) { return std::string("-"); },
                               [](bool value) { return std::string(value ? "yes" : "no"); },
                               [](std::int64_t value) { return std::to_string(value); },
                               [](const std::string& value) { return escaped(value); },
                               [&](auto value) { return fixed(double{value}, digits); }},
                    cell);
}

/// Returns the header and the cells, row by row, as texts with `fewer` decimals less than usual, but at
/// least one. Sets the widths of the columns.
std::vector<std::string> texts_of_table(const Table& table, std::span<const Cell> cells,
                                        std::vector<TextColumn>& layout, std::optional<int> digits,
                                        int fewer) {
  std::vector<std::string> texts =
      texts_of(table.columns, [](const Column& column) { return escaped(column.name); });
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const int usual = digits.value_or(digits_for(layout[i % layout.size()].largest));
    texts.push_back(text_of(cells[i], std::max(usual - fewer, std::min(usual, 1))));
  }
  for (TextColumn& column : layout) column.width = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::size_t& width = layout[i % layout.size()].width;
    width = std::max(width, display_width(texts[i]));
  }
  return texts;
}

std::size_t table_width(std::span<const TextColumn> layout) {
  std::size_t total = 0;
  for (const TextColumn& column : layout) total += column.width + (total > 0 ? kTableGap : 0);
  return total;
}

/// Leaves out columns without a value, then shortens the widest text column, or leaves out columns at the
/// end, so that a table fits into `width`. Returns the indices of the remaining columns.
std::vector<std::size_t> fit_columns(std::span<TextColumn> layout, std::size_t width) {
  constexpr std::size_t least = 24;  // width of a shortened column
  std::vector<std::size_t> shown(layout.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  std::size_t total = table_width(layout);
  for (std::size_t i = layout.size(); i-- > 1 && total > width;) {
    if (layout[i].has_values) continue;
    total -= layout[i].width + kTableGap;
    std::erase(shown, i);
  }
  const auto text_width = [&](std::size_t i) { return layout[i].numeric ? 0 : layout[i].width; };
  while (total > width) {
    const std::size_t widest = *std::ranges::max_element(shown, {}, text_width);
    const bool fits = text_width(widest) >= total - width + least;
    if (fits) layout[widest].width -= total - width;
    if (fits || shown.size() == 1) break;
    total -= layout[shown.back()].width + kTableGap;
    shown.pop_back();
  }
  return shown;
}

constexpr std::size_t kMaxWidth = 80;
constexpr std::size_t kMinPlot = 20;
constexpr std::size_t kPlotLines = 12;
constexpr std::size_t kMaxCategory = 20;
constexpr std::string_view kMarks = "*o+x#%@";

/// The lines of a chart. A later mark overwrites an earlier one at the same position.
using Grid = std::vector<std::string>;

char mark_of(std::size_t series) {
  return kMarks[series % kMarks.size()];
}

/// Returns the width of a chart without `used` of its columns, but at least kMinPlot.
std::size_t width_after(std::size_t used, const TextOptions& options) {
  const std::size_t space = std::min(options.drawing_width(), kMaxWidth);
  return std::max(kMinPlot, space - std::min(space, used));
}

/// Writes a character at (x, y). Both coordinates are from 0 to 1; y points upwards.
void put_mark(Grid& grid, double x, double y, char character) {
  const auto place = [](double share, std::size_t count) {
    return static_cast<std::size_t>(
        std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(count - 1)));
  };
  grid[kPlotLines - 1 - place(y, kPlotLines)][place(x, grid.front().size())] = character;
}

void draw_series(Grid& grid, const Plot& plot, const Plot::Series& series, char mark) {
  const std::size_t end = plot.chart.points ? 0 : series.points.size();
  for (std::size_t i = 1; i < end; ++i) {  // draws dots on the line between two points
    const double x0 = plot.x.place(series.points[i - 1].first);
    const double x1 = plot.x.place(series.points[i].first);
    const double y0 = plot.y.place(series.points[i - 1].second);
    const double y1 = plot.y.place(series.points[i].second);
    const auto steps = static_cast<int>(std::ceil(std::abs(x1 - x0) * static_cast<double>(grid[0].size())));
    for (int s = 1; s < steps; ++s)
      put_mark(grid, x0 + (x1 - x0) * s / steps, y0 + (y1 - y0) * s / steps, '.');
  }
  for (const auto& [x, y] : series.points) put_mark(grid, plot.x.place(x), plot.y.place(y), mark);
}

/// Appends the mark and the name of each series. Appends nothing if there is only one series.
void append_legend(std::string& text, const Plot& plot, std::size_t indent, const TextOptions& options) {
  if (plot.series.size() < 2) return;
  std::string line;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    line += fmt::format("{}{} {}", std::string(i == 0 ? indent : 3, ' '), mark_of(i),
                        escaped(plot.series[i].name));
  }
  text += wrapped(line, options.drawing_width(), "\n" + std::string(indent, ' ')) + '\n';
}

void append_lines(std::string& text, const Plot& plot, const TextOptions& options) {
  const std::string high = tick_label(plot.y.ticks.back());
  const std::string low = tick_label(plot.y.ticks.front());
  const std::size_t indent = std::max(display_width(high), display_width(low)) + 1;
  const std::size_t width = width_after(indent + 1, options);
  Grid grid(kPlotLines, std::string(width, ' '));
  for (std::size_t i = 0; i < plot.series.size(); ++i) draw_series(grid, plot, plot.series[i], mark_of(i));
  for (std::size_t line = 0; line < kPlotLines; ++line) {
    append_aligned(text, line == 0 ? high : line + 1 == kPlotLines ? low : "", indent - 1, true);
    text += trimmed(" |" + grid[line]) + '\n';
  }
  text += std::string(indent, ' ') + '+' + std::string(width, '-') + '\n';
  const std::string first = tick_label(plot.x.ticks.front());
  const std::string last = tick_label(plot.x.ticks.back());
  const std::string name = escaped(plot.chart.x_axis);
  const std::size_t used = display_width(first) + display_width(last) + display_width(name);
  const std::size_t blank = width > used ? width - used : 2;
  text += std::string(indent + 1, ' ') + first + std::string(blank / 2, ' ') + name +
          std::string(blank - blank / 2, ' ') + last + '\n';
  append_legend(text, plot, indent + 1, options);
}

void append_bars(std::string& text, const Plot& plot, const TextOptions& options) {
  std::vector<std::string> labels;
  std::size_t indent = 0;
  for (const std::string& category : plot.categories) {
    labels.push_back(shortened(escaped(category), kMaxCategory));
    indent = std::max(indent, display_width(labels.back()));
  }
  constexpr std::size_t value_space = 10;
  const auto width = static_cast<double>(width_after(indent + value_space + 2, options));
  const double zero = plot.y.place(0);
  const std::size_t count = plot.series.size();
  std::vector<std::string> bars(labels.size() * count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& [row, value] : plot.series[i].points) {
      const double from = std::min(plot.y.place(value), zero) * width;
      const double to = std::max(plot.y.place(value), zero) * width;
      const auto blank = static_cast<std::size_t>(std::lround(from));
      const auto length = static_cast<std::size_t>(std::lround(to)) - blank;
      bars[static_cast<std::size_t>(row) * count + i] =
          std::string(blank, ' ') + std::string(length, mark_of(i)) + fmt::format(" {:.4g}", value);
    }
  }
  for (std::size_t i = 0; i < bars.size(); ++i) {
    append_aligned(text, i % count == 0 ? labels[i / count] : "", indent, false);
    text += trimmed(" |" + bars[i]) + '\n';
  }
  append_legend(text, plot, indent + 2, options);
}

struct TextPage {
  void operator()(const TextLine& line) { text += text_line(line, options); }

  void operator()(const TextTable& block) {
    begin(block.title);
    TextOptions with_digits = options;
    if (!options.digits) with_digits.digits = block.digits;
    with_digits.grid = !options.digits && block.grid;
    with_digits.first_columns = block.first_columns;
    append_text_table(text, block.table, with_digits);
  }

  void operator()(const TextMatrices& block) {
    begin(block.title);
    if (block.style == TextMatrices::Style::small_heatmaps)
      return append_text_heatmaps(text, block.matrices, options);
    const bool numbers = block.style == TextMatrices::Style::numbers;
    for (const TextMatrix& matrix : block.matrices)
      (numbers ? append_text_matrix : append_text_heatmap)(text, matrix, options);
  }

  void operator()(const ChartPage& page) {
    for (const Chart& chart : page.charts) {
      begin({});
      append_text_chart(text, page.table, chart, options);
    }
  }

  /// Writes an empty line if this is not the first block, then the title of the block.
  void begin(const std::string& title) {
    if (!text.empty()) text += '\n';
    if (!title.empty()) text += text_line({title}, options);
  }

  const TextOptions& options;
  std::string text = {};
};

std::size_t width_of(char32_t point) {
  if (point < 0x300) return 1;
  const auto c = static_cast<UChar32>(point);
  constexpr std::uint32_t invisible = U_GC_MN_MASK | U_GC_ME_MASK | U_GC_CF_MASK;
  if ((U_GET_GC_MASK(c) & invisible) != 0) return 0;
  // Hangul vowels and final consonants are drawn in the same columns as the consonant before them.
  const auto syllable = u_getIntPropertyValue(c, UCHAR_HANGUL_SYLLABLE_TYPE);
  if (syllable == U_HST_VOWEL_JAMO || syllable == U_HST_TRAILING_JAMO) return 0;
  const auto width = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

}  // namespace

std::string strong(std::string_view text, const TextOptions& options) {
  if (!options.styled) return std::string(text);
  return std::string(kAnsiBold).append(text).append(kAnsiPlain);
}

std::string text_line(const TextLine& line, const TextOptions& options) {
  const std::string bold = escaped(line.strong);
  const std::string text =
      wrapped(bold + escaped(line.plain), options.width.value_or(kUnlimited), "\n  ") + '\n';
  const auto drawn = [](char c) { return c != ' ' && c != '\n'; };
  std::size_t end = 0;  // end of the bold part of `text`
  for (auto left = std::ranges::count_if(bold, drawn); left > 0; ++end) left -= drawn(text[end]) ? 1 : 0;
  return end == 0 ? text : strong(text.substr(0, end), options) + text.substr(end);
}

std::string wrapped(std::string_view line, std::size_t width, std::string_view next,
                    std::string_view before) {
  std::string text;
  std::size_t used = 0;  // columns of the last line of `text`
  while (!line.empty()) {
    const std::size_t gap = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view part = line.substr(0, line.find(before, gap));
    used += display_width(part);
    if (used > width && !text.empty()) {
      used = display_width(part.substr(gap)) + next.size() - next.rfind('\n') - 1;
      text.append(next).append(part.substr(gap));
    } else {
      text += part;
    }
    line.remove_prefix(part.size());
  }
  return text;
}

void append_text_table(std::string& text, const Table& table, const TextOptions& options) {
  const std::size_t columns = table.columns.size();
  std::vector<Cell> cells(table.rows * columns);
  for (std::size_t row = 0; row < table.rows; ++row)
    table.row(row, std::span(cells).subspan(row * columns, columns));
  std::vector<TextColumn> layout(columns);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (options.non_finite != nullptr) *options.non_finite += count_non_finite(cells[i]);
    examine(layout[i % columns], cells[i]);
  }
  if (options.grid) {
    const double largest = std::ranges::max_element(layout, {}, &TextColumn::largest)->largest;
    for (TextColumn& column : layout) column.largest = largest;
  }
  const std::size_t width = options.all_columns ? kUnlimited : options.width.value_or(kUnlimited);
  std::vector<std::string> texts = texts_of_table(table, cells, layout, options.digits, 0);
  for (int fewer = 1; options.grid && fewer <= 2 && table_width(layout) > width; ++fewer)
    texts = texts_of_table(table, cells, layout, options.digits, fewer);
  const std::size_t most = options.all_columns ? columns : options.first_columns.value_or(columns);
  const std::vector<std::size_t> shown = fit_columns(std::span(layout).first(most), width);
  std::string note;
  for (std::size_t row = 0; row <= table.rows; ++row) {
    std::string line;
    for (const std::size_t i : shown) {
      if (i > 0) line.append(kTableGap, ' ');
      const std::string& cell = texts[row * columns + i];
      if (display_width(cell) > layout[i].width) note = "cells are shortened";
      append_aligned(line, shortened(cell, layout[i].width), layout[i].width, layout[i].numeric);
    }
    text += (row == 0 ? strong(trimmed(line), options) : trimmed(line)) + '\n';
  }
  texts.resize(columns);
  for (const std::size_t i : shown) texts[i].clear();
  for (std::size_t i = 0; i < columns; ++i)
    if (!layout[i].has_values) texts[i].clear();
  std::erase(texts, "");
  if (!texts.empty()) {
    note = fmt::format("{} ({})", counted(texts.size(), "more column"),
                       shortened(fmt::format("{}", fmt::join(texts, ", ")), 200));
  }
  if (!note.empty()) text += text_line({"", note + ": --columns all"}, options);
}

void append_text_chart(std::string& text, const Table& table, const Chart& chart,
                       const TextOptions& options) {
  const Plot plot = plot_of(table, chart);
  text += text_line({chart.title}, options);
  chart.bars ? append_bars(text, plot, options) : append_lines(text, plot, options);
}

std::string text_page(std::span<const PageBlock> blocks, const TextOptions& options) {
  TextPage page{options};
  for (const PageBlock& block : blocks) std::visit(page, block);
  return page.text;
}

Character take_character(std::string_view& text) {
  const std::size_t length = utf8_sequence_length(text);
  const std::string_view bytes = text.substr(0, std::max<std::size_t>(length, 1));
  text.remove_prefix(bytes.size());
  return {bytes, length == 0 ? 1 : width_of(utf8_code_point(bytes))};
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) width += take_character(text).columns;
  return width;
}

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width || width == 0) return std::string(width == 0 ? "" : text);
  std::string kept;
  std::size_t used = 1;  // the ellipsis takes one column
  while (true) {
    const Character character = take_character(text);
    used += character.columns;
    if (used > width) return kept + "\xE2\x80\xA6";
    kept += character.bytes;
  }
}

void append_aligned(std::string& line, std::string_view text, std::size_t width, bool right) {
  const std::size_t own = display_width(text);
  const std::size_t fill = width - std::min(width, own);
  if (right) line.append(fill, ' ');
  line += text;
  if (!right) line.append(fill, ' ');
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.front() == '-' && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);
  return text;
}

}  // namespace attnctl::report
