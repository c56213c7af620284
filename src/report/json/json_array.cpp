#include "report/json/json_array.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "report/json/json_text.hpp"

namespace attnctl {
namespace {

/// Writes a number at `to`, which has space for NumberFormat::most_characters, and returns the end.
template <typename T>
char* write_number(char* to, const NumberFormat& format, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::ranges::copy(std::string_view("null"), to).out;
  }
  return format.write(to, value);
}

template <typename T>
void append_number(std::string& text, const NumberFormat& format, T value) {
  char buffer[NumberFormat::most_characters];
  text.append(buffer, write_number(buffer, format, value));
}

/// Returns the number of lists that begin at a row (an innermost list) of the array: the row itself is
/// counted, the outermost list is not. For `row` + 1 this is the number of lists that end after `row`.
std::size_t lists_at(const Shape& shape, std::size_t row) {
  std::size_t lists = 0;
  std::size_t rows = 1;  // number of rows in a list of dimension d
  for (std::size_t d = shape.size() - 1; d > 0; --d) {
    if (row % rows != 0) break;
    ++lists;
    rows *= shape[d - 1];
  }
  return lists;
}

void begin_row(std::string& text, const Shape& shape, const ArrayLayout& layout, std::size_t row) {
  if (row > 0) text += ',';
  if (layout.lines) {
    text += '\n';
    text.append(layout.indent, ' ');
  }
  text.append(lists_at(shape, row), '[');
}

/// Appends a part of a row, numbers separated by commas, through a buffer that stays in cache.
template <typename T>
void append_numbers(std::string& text, const NumberFormat& format, std::span<const T> values) {
  constexpr std::size_t room = 8192;
  char buffer[room];
  char* end = buffer;
  for (const T value : values) {
    if (end > buffer + room - NumberFormat::most_characters - 1) {
      text.append(buffer, end);
      end = buffer;
    }
    end = write_number(end, format, value);
    *end++ = ',';
  }
  text.append(buffer, end - 1);  // omits the last comma
}

template <typename T>
void append_range(std::string& text, const NumberFormat& format, std::span<const T> values,
                  const Shape& shape, const ArrayLayout& layout, std::size_t first, std::size_t last) {
  const std::size_t columns = shape.back();
  while (first < last) {
    const std::size_t row = first / columns;
    const std::size_t row_end = (row + 1) * columns;
    if (first % columns == 0) {
      begin_row(text, shape, layout, row);
    } else {
      text += ',';
    }
    const std::size_t end = std::min(last, row_end);
    append_numbers(text, format, values.subspan(first, end - first));
    if (end == row_end) text.append(lists_at(shape, row + 1), ']');
    first = end;
  }
}

}  // namespace

void append_array_range(std::string& text, const NumberFormat& format, const Array& array,
                        const ArrayLayout& layout, std::size_t first, std::size_t last) {
  std::visit(
      [&](const auto& values) { append_range(text, format, values, array.shape, layout, first, last); },
      array.values);
}

void append_empty_array(std::string& text, const Shape& shape, std::size_t dimension) {
  text += '[';
  for (std::size_t i = 0; dimension < shape.size() && i < shape[dimension]; ++i) {
    if (i > 0) text += ',';
    append_empty_array(text, shape, dimension + 1);
  }
  text += ']';
}

void append_cell(std::string& text, const NumberFormat& format, const Cell& cell) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          text += "null";
        } else if constexpr (std::is_same_v<T, bool>) {
          text += value ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::string>) {
          append_json_string(text, value);
        } else {
          append_number(text, format, value);
        }
      },
      cell);
}

}  // namespace attnctl
