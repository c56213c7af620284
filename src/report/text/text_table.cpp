#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.hpp"
#include "report/non_finite.hpp"
#include "report/text/text.hpp"
#include "report/text/text_cells.hpp"
#include "report/text/text_width.hpp"

namespace attnctl {
namespace {

constexpr std::string_view gap = "  ";

struct Column {
  bool numeric = true;
  double largest = 0;  // largest magnitude of the finite floats
  int digits = 0;
  std::size_t width = 0;
};

int digits_for(double largest) {
  constexpr int usual = 3;
  constexpr int most = 8;
  if (largest == 0 || largest >= 0.1) return usual;
  return std::clamp(2 - static_cast<int>(std::floor(std::log10(largest))), usual, most);
}

void look_at(Column& column, const Cell& cell) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, bool>) {
          column.numeric = false;
        } else if constexpr (std::is_floating_point_v<T>) {
          const double magnitude = std::abs(static_cast<double>(value));
          if (std::isfinite(magnitude)) column.largest = std::max(column.largest, magnitude);
        }
      },
      cell);
}

std::string shown(const Cell& cell, int digits) {
  return std::visit(
      [&](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "-";
        } else if constexpr (std::is_same_v<T, bool>) {
          return value ? "yes" : "no";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return escaped(value);
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return std::to_string(value);
        } else {
          return fixed(static_cast<double>(value), digits);
        }
      },
      cell);
}

/// The cells as text, row by row, and the layout of the columns.
struct Shown {
  std::vector<Column> columns;
  std::vector<std::string> cells;
};

Shown show(const Table& table, const TextOptions& options) {
  Shown result;
  result.columns.resize(table.columns.size());
  std::vector<Cell> cells(table.rows * table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, std::span(cells).subspan(row * table.columns.size(), table.columns.size()));
  }
  if (options.non_finite != nullptr) {
    for (const Cell& cell : cells) *options.non_finite += count_non_finite(cell);
  }
  for (std::size_t i = 0; i < cells.size(); ++i) look_at(result.columns[i % table.columns.size()], cells[i]);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    Column& column = result.columns[i];
    column.digits = options.digits.value_or(digits_for(column.largest));
    column.width = display_width(table.columns[i]);
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    Column& column = result.columns[i % table.columns.size()];
    column.width =
        std::max(column.width, display_width(result.cells.emplace_back(shown(cells[i], column.digits))));
  }
  return result;
}

void append_line(std::string& text, const std::vector<Column>& columns, std::span<const std::string> cells) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) line += gap;
    append_aligned(line, cells[i], columns[i].width, columns[i].numeric);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  text += line;
}

}  // namespace

std::string strong(std::string_view text, const TextOptions& options) {
  if (!options.styled) return std::string(text);
  return std::string(ansi_bold).append(text).append(ansi_plain);
}

void append_text_table(std::string& text, const Table& table, const TextOptions& options) {
  const Shown result = show(table, options);
  std::string header;
  append_line(header, result.columns, table.columns);
  text += strong(header, options);
  text += '\n';
  for (std::size_t row = 0; row < table.rows; ++row) {
    append_line(text, result.columns,
                std::span(result.cells).subspan(row * table.columns.size(), table.columns.size()));
    text += '\n';
  }
}

}  // namespace attnctl
