#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "base/error.hpp"
#include "report/non_finite.hpp"
#include "report/text/text.hpp"
#include "report/text/text_cells.hpp"
#include "report/text/text_width.hpp"

namespace attnctl {
namespace {

constexpr std::size_t longest_row_label = 16;
constexpr std::size_t longest_column_label = 7;
constexpr double strong_from = 0.5;
constexpr double faint_below = 0.05;

double value_at(const Array& values, std::size_t i) {
  return std::visit([i](const auto& span) { return static_cast<double>(span[i]); }, values.values);
}

std::string label(const std::vector<std::string>& labels, std::size_t i, std::size_t width) {
  return labels.empty() ? std::to_string(i) : shortened(escaped(labels[i]), width);
}

/// The part of the matrix that is shown, and the width of its columns.
struct Extent {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t label_width = 0;
  std::size_t cell_width = 0;
};

Extent measure(const TextMatrix& matrix, const TextOptions& options, int digits) {
  Extent extent;
  const Shape& shape = matrix.values.shape;
  extent.rows = std::min(shape[0], matrix.most_rows);
  extent.label_width = display_width(matrix.corner);
  for (std::size_t row = 0; row < extent.rows; ++row) {
    extent.label_width =
        std::max(extent.label_width, display_width(label(matrix.row_labels, row, longest_row_label)));
  }
  for (std::size_t column = 0; column < shape[1]; ++column) {
    extent.cell_width =
        std::max(extent.cell_width, display_width(label(matrix.column_labels, column, longest_column_label)));
  }
  for (std::size_t i = 0; i < extent.rows * shape[1]; ++i) {
    extent.cell_width = std::max(extent.cell_width, fixed(value_at(matrix.values, i), digits).size());
  }
  const std::size_t room = options.width - std::min(options.width, extent.label_width);
  extent.columns =
      std::clamp<std::size_t>(room / (extent.cell_width + 1), 1, std::max<std::size_t>(shape[1], 1));
  extent.columns = std::min(extent.columns, shape[1]);
  return extent;
}

void append_value(std::string& line, double value, std::size_t width, int digits, bool styled) {
  std::string_view style;
  if (styled && std::abs(value) > strong_from) style = ansi_bold;
  if (styled && !(std::abs(value) >= faint_below)) style = ansi_dim;  // also undefined values
  line += style;
  append_aligned(line, fixed(value, digits), width, true);
  if (!style.empty()) line += ansi_plain;
}

void check(const TextMatrix& matrix) {
  const Shape& shape = matrix.values.shape;
  if (shape.size() != 2 || (!matrix.row_labels.empty() && matrix.row_labels.size() != shape[0]) ||
      (!matrix.column_labels.empty() && matrix.column_labels.size() != shape[1])) {
    throw std::invalid_argument("a text matrix whose labels do not fit its values");
  }
}

}  // namespace

void append_text_matrix(std::string& text, const TextMatrix& matrix, const TextOptions& options) {
  check(matrix);
  if (options.non_finite != nullptr) *options.non_finite += count_non_finite(matrix.values);
  const int digits = options.digits.value_or(2);
  const Extent extent = measure(matrix, options, digits);
  const Shape& shape = matrix.values.shape;
  std::string header;
  append_aligned(header, matrix.corner, extent.label_width, false);
  for (std::size_t column = 0; column < extent.columns; ++column) {
    header += ' ';
    append_aligned(header, label(matrix.column_labels, column, longest_column_label), extent.cell_width,
                   true);
  }
  text += strong(header, options);
  text += '\n';
  for (std::size_t row = 0; row < extent.rows; ++row) {
    append_aligned(text, label(matrix.row_labels, row, longest_row_label), extent.label_width, false);
    for (std::size_t column = 0; column < extent.columns; ++column) {
      text += ' ';
      append_value(text, value_at(matrix.values, row * shape[1] + column), extent.cell_width, digits,
                   options.styled);
    }
    text += '\n';
  }
  if (extent.rows < shape[0] || extent.columns < shape[1]) {
    text += fmt::format("({} of {} rows and {} of {} columns)\n", extent.rows, shape[0], extent.columns,
                        shape[1]);
  }
}

}  // namespace attnctl
