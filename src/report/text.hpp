#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/results.hpp"

namespace attnctl::report {

/// Options of text output. Text that was read from files is made safe for terminals (attnctl::escaped).
struct TextOptions {
  bool styled = false;  // bold and dim text by ANSI sequences; the caller checks the terminal and NO_COLOR
  std::optional<int> digits = {};  // number of decimals; default: see each function
  /// Width in columns. If unknown, tables and lines may have any width, drawings and matrices up to 80.
  std::optional<std::size_t> width = {};
  bool colours = false;  // heatmaps in 256 colours; otherwise with shaded block characters
  /// If not null, tables, matrices and heatmaps add the number of their values that are NaN or infinite.
  std::atomic<std::uint64_t>* non_finite = nullptr;
  bool all_columns = false;  // show all columns and rows, also if they exceed the width
  /// All columns of a table have the same number of decimals, which is up to 2 less than usual, but at least
  /// one, if the table exceeds the width.
  bool grid = false;
  std::optional<std::size_t> first_columns = {};  // number of columns of a table without all_columns

  [[nodiscard]] std::size_t drawing_width() const { return width.value_or(80); }
};

/// Appends a table with a header and aligned columns. A column with a text or a boolean is aligned to the
/// left, any other column to the right. Undefined cells and numbers that are not finite are "-". Without
/// `digits`, floating-point numbers have three decimals. If the largest magnitude in a column is above 0 and
/// below 0.1, the column has as many decimals (at most eight) as this magnitude needs for three significant
/// digits. If the table exceeds the width, columns without a value are omitted, then its widest text is
/// shortened (to 24 columns or more) or its last columns are omitted. Columns after the first_columns are
/// omitted too. A last line reports this, except for columns without a value.
void append_text_table(std::string& text, const Table& table, const TextOptions& options = {});

/// Appends a matrix of numbers with two decimals (or `digits`). If styled, values above 0.5 in magnitude are
/// bold, and values below 0.05 in magnitude and undefined values are dim. Columns that exceed the width and
/// rows after TextMatrix::most_rows are omitted, which a first line reports.
void append_text_matrix(std::string& text, const TextMatrix& matrix, const TextOptions& options = {});

/// Appends a matrix of weights from 0 to 1 as a heatmap with labels and a scale. A cell is two terminal
/// columns wide, or one if two do not fit and all characters of the labels have one; column labels are
/// written vertically. Columns that exceed the width and rows after TextMatrix::most_rows are omitted, which
/// a first line reports.
void append_text_heatmap(std::string& text, const TextMatrix& matrix, const TextOptions& options = {});

/// Appends small heatmaps of weights from 0 to 1, as many next to each other as fit into the width, and a
/// scale. A cell is one terminal column wide; with colours it is half a line high. The title of a heatmap is
/// TextMatrix::corner. Each line starts with the labels of its one or, with colours, two rows; column labels
/// are not shown. All matrices must have the shape and the row labels of the first one.
void append_text_heatmaps(std::string& text, const std::vector<TextMatrix>& matrices,
                          const TextOptions& options = {});

/// Appends a chart drawn with characters: lines or points on a grid, or horizontal bars. Each of up to seven
/// series has its own mark. The chart is about as wide as options.width, but at most 80 columns; its plot
/// has at least 20 columns. Throws std::invalid_argument if the table lacks a column of the chart.
void append_text_chart(std::string& text, const Table& table, const Chart& chart,
                       const TextOptions& options = {});

/// Formats blocks as one text, in order. There is a blank line before each table, each chart and each
/// TextMatrices, except at the beginning of the text.
[[nodiscard]] std::string text_page(std::span<const PageBlock> blocks, const TextOptions& options);

[[nodiscard]] std::string strong(std::string_view text, const TextOptions& options);

/// Returns a line of a text page and its line end, broken at spaces if it exceeds the width.
[[nodiscard]] std::string text_line(const TextLine& line, const TextOptions& options);

/// Breaks a line at spaces, or only before the text `before`, into lines of at most `width` columns, with
/// `next` between them. A part that is wider than a line is not broken.
[[nodiscard]] std::string wrapped(std::string_view line, std::size_t width, std::string_view next,
                                  std::string_view before = " ");

inline constexpr std::string_view kAnsiBold = "\x1b[1m";
inline constexpr std::string_view kAnsiDim = "\x1b[2m";
inline constexpr std::string_view kAnsiPlain = "\x1b[0m";

/// A character in UTF-8, and its width in terminal columns. Wide East Asian characters and emoji (UAX 11)
/// have 2 columns. From U+0300 on, non-spacing marks, enclosing marks, format characters (categories Mn, Me
/// and Cf), and conjoining Hangul vowels and final consonants have 0 columns. Other characters have 1.
struct Character {
  std::string_view bytes;
  std::size_t columns = 0;
};

/// Removes the first character of a non-empty text and returns it.
[[nodiscard]] Character take_character(std::string_view& text);

/// Returns the number of terminal columns of a text without control characters (see attnctl::escaped).
[[nodiscard]] std::size_t display_width(std::string_view text);

/// Returns the text if it fits into `width` columns, else its beginning and an ellipsis; empty for 0 columns.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

/// Appends a text and pads it with spaces to `width` columns. `right` aligns the text to the right.
void append_aligned(std::string& line, std::string_view text, std::size_t width, bool right);

/// Returns the text without the spaces at its end.
[[nodiscard]] inline std::string trimmed(std::string_view text) {
  return std::string(text.substr(0, text.find_last_not_of(' ') + 1));
}

/// Formats a number with `digits` decimals: no sign if all digits are 0, and "-" if it is not finite.
[[nodiscard]] std::string fixed(double value, int digits);

}  // namespace attnctl::report
