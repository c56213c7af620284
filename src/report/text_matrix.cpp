#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "base/text.hpp"
#include "report/drawing.hpp"
#include "report/text.hpp"

namespace attnctl::report {
namespace {

constexpr std::size_t kMaxRowLabel = 16;
constexpr std::size_t kMaxColumnLabel = 7;
constexpr std::size_t kMaxHeatmapLabel = 10;
constexpr std::size_t kGap = 2;  // terminal columns between small heatmaps
constexpr double kStrongFrom = 0.5;
constexpr double kFaintBelow = 0.05;
constexpr std::array<std::string_view, 5> kShades{" ", "░", "▒", "▓", "█"};

double value_at(const TextMatrix& matrix, std::size_t row, std::size_t column) {
  return matrix.values.at(row * matrix.values.shape[1] + column);
}

std::string label(const std::vector<std::string>& labels, std::size_t i, std::size_t width) {
  return labels.empty() ? std::to_string(i) : shortened(escaped(labels[i]), width);
}

/// Throws std::invalid_argument if the values are not a matrix or the number of labels is wrong. Adds the
/// number of values that are NaN or infinite to options.non_finite.
void check_and_count(const TextMatrix& matrix, const TextOptions& options) {
  const Shape& shape = matrix.values.shape;
  if (shape.size() != 2 || (!matrix.row_labels.empty() && matrix.row_labels.size() != shape[0]) ||
      (!matrix.column_labels.empty() && matrix.column_labels.size() != shape[1])) {
    throw std::invalid_argument("a text matrix whose labels do not fit its values");
  }
  if (options.non_finite != nullptr) *options.non_finite += count_non_finite(matrix.values);
}

/// Returns the largest width of TextMatrix::corner and of the labels of the first `rows` rows.
std::size_t width_of_row_labels(const TextMatrix& matrix, std::size_t rows) {
  std::size_t width = display_width(matrix.corner);
  for (std::size_t row = 0; row < rows; ++row)
    width = std::max(width, display_width(label(matrix.row_labels, row, kMaxRowLabel)));
  return width;
}

/// Returns the number of rows that are shown.
std::size_t rows_shown(const TextMatrix& matrix, const TextOptions& options) {
  const std::size_t rows = matrix.values.shape[0];
  return options.all_columns ? rows : std::min(rows, matrix.most_rows);
}

/// Returns the number of columns that are shown if `fitting` of them fit into the width.
std::size_t columns_shown(const TextMatrix& matrix, std::size_t fitting, const TextOptions& options) {
  const std::size_t columns = matrix.values.shape[1];
  return options.all_columns ? columns : std::min(columns, std::max<std::size_t>(fitting, 1));
}

void append_omitted(std::string& text, const TextMatrix& matrix, std::size_t rows, std::size_t columns) {
  const Shape& shape = matrix.values.shape;
  if (rows < shape[0] || columns < shape[1])
    text += fmt::format("({} of {} rows and {} of {} columns: --columns all{})\n", rows, shape[0], columns,
                        shape[1], matrix.advice);
}

void append_value(std::string& line, double value, std::size_t width, int digits, bool styled) {
  std::string_view style;
  if (styled && std::abs(value) > kStrongFrom) style = kAnsiBold;
  if (styled && !(std::abs(value) >= kFaintBelow)) style = kAnsiDim;  // undefined values are dim too
  line += style;
  append_aligned(line, fixed(value, digits), width, true);
  if (!style.empty()) line += kAnsiPlain;
}

/// Returns one of five shades, or "?" for a value that is not finite. Values below kFaintBelow are blank,
/// because they are negligible. Values from 0.75 on have the darkest shade.
std::string_view shade(double value) {
  if (!std::isfinite(value)) return "?";
  if (value < kFaintBelow) return kShades[0];
  return kShades[1 + static_cast<std::size_t>(std::min(value, 0.999) * 4)];
}

constexpr Colour kUndefinedColour{0x9e, 0x9e, 0x9e};

int colour_of(double value) {
  return terminal_colour(std::isfinite(value) ? colour_at(colormap(false), value) : kUndefinedColour);
}

/// Splits a label into characters. Combining marks stay with the character before them.
std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    const Character character = take_character(text);
    if (character.columns > 0 || all.empty()) all.emplace_back();
    all.back() += character.bytes;
  }
  return all;
}

/// The columns of a heatmap in a terminal.
struct HeatmapColumns {
  std::size_t indent = 0;                        // terminal columns before the cells
  std::size_t cell = 2;                          // terminal columns of a cell
  std::vector<std::vector<std::string>> labels;  // the characters of the label of each column
};

/// A cell has one terminal column if cells of two do not fit, unless a label has a character of two.
HeatmapColumns heatmap_columns(const TextMatrix& matrix, std::size_t rows, const TextOptions& options) {
  HeatmapColumns layout{.indent = width_of_row_labels(matrix, rows) + 1, .labels = {}};
  std::size_t widest = 1;  // character
  for (std::size_t column = 0; column < matrix.values.shape[1]; ++column) {
    layout.labels.push_back(characters(label(matrix.column_labels, column, kMaxHeatmapLabel)));
    for (const std::string& character : layout.labels.back())
      widest = std::max(widest, display_width(character));
  }
  const std::size_t space = options.drawing_width() - std::min(options.drawing_width(), layout.indent);
  if (layout.labels.size() * layout.cell > space) layout.cell = std::min(widest, layout.cell);
  layout.labels.resize(columns_shown(matrix, space / layout.cell, options));
  return layout;
}

/// Appends the column labels, written vertically. All labels end directly above the cells.
void append_column_labels(std::string& text, const HeatmapColumns& layout, const std::string& corner) {
  std::size_t height = 0;
  for (const auto& each : layout.labels) height = std::max(height, each.size());
  for (std::size_t line = 0; line < height; ++line) {
    std::string row;
    append_aligned(row, line + 1 == height ? corner : "", layout.indent, false);
    for (const std::vector<std::string>& each : layout.labels) {
      const std::size_t blank = height - each.size();
      append_aligned(row, line < blank ? "" : each[line - blank], layout.cell, false);
    }
    text += trimmed(row) + '\n';
  }
}

/// Appends a coloured or shaded area that is `columns` wide. The caller resets the colour.
void append_cell(std::string& text, double value, std::size_t columns, const TextOptions& options) {
  if (options.colours) text += fmt::format("\x1b[48;5;{}m", colour_of(value));
  for (std::size_t i = 0; i < columns; ++i) text += options.colours ? " " : shade(value);
}

void append_scale(std::string& text, const TextOptions& options) {
  text += "weight 0 ";
  constexpr int steps = 10;
  for (int i = 0; i < steps; ++i) append_cell(text, (i + 0.5) / steps, 1, options);
  text += options.colours ? fmt::format("{} 1\n", kAnsiPlain)
                          : fmt::format(" 1 (blank: below {})\n", kFaintBelow);
}

/// The common layout of small heatmaps.
struct SmallLayout {
  std::vector<std::string> labels;  // one per text line
  std::size_t indent = 0;           // terminal columns before the first heatmap
  std::size_t columns = 0;          // shown columns of a heatmap
  std::size_t space = 0;            // terminal columns of a heatmap and its title
  std::size_t across = 1;           // heatmaps next to each other
};

SmallLayout small_layout(const TextMatrix& first, const TextOptions& options) {
  SmallLayout layout;
  const std::size_t rows = rows_shown(first, options);
  const std::size_t step = options.colours ? 2 : 1;
  for (std::size_t row = 0; row < rows; row += step) {
    std::string text = label(first.row_labels, row, kMaxHeatmapLabel);
    if (step == 2 && row + 1 < first.values.shape[0])
      text += ' ' + label(first.row_labels, row + 1, kMaxHeatmapLabel);
    layout.indent = std::max(layout.indent, display_width(text) + 1);
    layout.labels.push_back(std::move(text));
  }
  const std::size_t width = options.drawing_width() - std::min(options.drawing_width(), layout.indent);
  layout.columns = columns_shown(first, width, options);
  layout.space = std::max(layout.columns, display_width(first.corner));
  layout.across = std::max<std::size_t>((width + kGap) / (layout.space + kGap), 1);
  return layout;
}

/// Appends one text line of a small heatmap: two rows of the heatmap if colours are used, otherwise one row.
void append_small_line(std::string& line, const TextMatrix& matrix, std::size_t row, std::size_t columns,
                       const TextOptions& options) {
  for (std::size_t column = 0; column < columns; ++column) {
    if (!options.colours) {
      line += shade(value_at(matrix, row, column));
      continue;
    }
    const bool last = row + 1 == matrix.values.shape[0];
    line += fmt::format("\x1b[38;5;{};{}m▀", colour_of(value_at(matrix, row, column)),
                        last ? "49" : fmt::format("48;5;{}", colour_of(value_at(matrix, row + 1, column))));
  }
  if (options.colours) line += kAnsiPlain;
}

void append_small_row(std::string& text, std::span<const TextMatrix> matrices, const SmallLayout& layout,
                      const TextOptions& options) {
  const TextMatrix& first = matrices.front();
  append_omitted(text, first, rows_shown(first, options), layout.columns);
  std::string titles(layout.indent, ' ');
  for (const TextMatrix& matrix : matrices)
    append_aligned(titles, shortened(escaped(matrix.corner), layout.space), layout.space + kGap, false);
  text += strong(trimmed(titles), options) + '\n';
  for (std::size_t i = 0; i < layout.labels.size(); ++i) {
    std::string line;
    append_aligned(line, layout.labels[i], layout.indent, false);
    for (const TextMatrix& matrix : matrices) {
      append_small_line(line, matrix, options.colours ? 2 * i : i, layout.columns, options);
      line.append(layout.space + kGap - layout.columns, ' ');
    }
    text += trimmed(line) + '\n';
  }
}

}  // namespace

void append_text_matrix(std::string& text, const TextMatrix& matrix, const TextOptions& options) {
  check_and_count(matrix, options);
  const int digits = options.digits.value_or(2);
  const std::size_t rows = rows_shown(matrix, options);
  const std::size_t label_width = width_of_row_labels(matrix, rows);
  std::size_t cell_width = 0;
  for (std::size_t column = 0; column < matrix.values.shape[1]; ++column) {
    cell_width = std::max(cell_width, display_width(label(matrix.column_labels, column, kMaxColumnLabel)));
    for (std::size_t row = 0; row < rows; ++row)
      cell_width = std::max(cell_width, fixed(value_at(matrix, row, column), digits).size());
  }
  const std::size_t space = options.drawing_width() - std::min(options.drawing_width(), label_width);
  const std::size_t columns = columns_shown(matrix, space / (cell_width + 1), options);
  append_omitted(text, matrix, rows, columns);
  std::string header;
  append_aligned(header, matrix.corner, label_width, false);
  for (std::size_t column = 0; column < columns; ++column) {
    header += ' ';
    append_aligned(header, label(matrix.column_labels, column, kMaxColumnLabel), cell_width, true);
  }
  text += strong(header, options) + '\n';
  for (std::size_t row = 0; row < rows; ++row) {
    append_aligned(text, label(matrix.row_labels, row, kMaxRowLabel), label_width, false);
    for (std::size_t column = 0; column < columns; ++column) {
      text += ' ';
      append_value(text, value_at(matrix, row, column), cell_width, digits, options.styled);
    }
    text += '\n';
  }
}

void append_text_heatmap(std::string& text, const TextMatrix& matrix, const TextOptions& options) {
  check_and_count(matrix, options);
  const std::size_t rows = rows_shown(matrix, options);
  const HeatmapColumns layout = heatmap_columns(matrix, rows, options);
  append_omitted(text, matrix, rows, layout.labels.size());
  append_column_labels(text, layout, matrix.corner);
  for (std::size_t row = 0; row < rows; ++row) {
    std::string line;
    append_aligned(line, label(matrix.row_labels, row, kMaxRowLabel), layout.indent, false);
    for (std::size_t column = 0; column < layout.labels.size(); ++column)
      append_cell(line, value_at(matrix, row, column), layout.cell, options);
    if (options.colours) line += kAnsiPlain;
    text += trimmed(line) + '\n';
  }
  append_scale(text, options);
}

void append_text_heatmaps(std::string& text, const std::vector<TextMatrix>& matrices,
                          const TextOptions& options) {
  if (matrices.empty()) return;
  for (const TextMatrix& matrix : matrices) check_and_count(matrix, options);
  const SmallLayout layout = small_layout(matrices.front(), options);
  for (std::size_t first = 0; first < matrices.size(); first += layout.across) {
    if (first > 0) text += '\n';
    append_small_row(text,
                     std::span(matrices).subspan(first, std::min(layout.across, matrices.size() - first)),
                     layout, options);
  }
  append_scale(text, options);
}

}  // namespace attnctl::report
