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

namespace attnctl {

/// Options of text output for terminals. Text from files is made safe (attnctl::escaped).
struct TextOptions {
  bool styled = false;  // bold and dim by ANSI sequences; the caller checks the terminal and NO_COLOR
  std::optional<int> digits = {};  // number of decimals (default: depends on the column)
  std::size_t width = 80;          // columns of the terminal, for matrices and heatmaps
  bool colours = false;            // 256-colour heatmaps; otherwise shades of block characters
  std::atomic<std::uint64_t>* non_finite = nullptr;  // if set, adds the result of count_non_finite
};

/// Appends a table with aligned columns and a header: numbers right-aligned, texts left-aligned, undefined
/// cells as "-". Without `digits`, a column of floats has enough decimals for three digits of its largest
/// number, but at most three decimals unless all numbers are below 0.1.
void append_text_table(std::string& text, const Table& table, const TextOptions& options = {});

/// Appends a matrix with two decimals (or `digits`). If styled, values above 0.5 in magnitude are bold and
/// those below 0.05 are dim. Omits what exceeds the width or `most_rows`; a last line reports this.
void append_text_matrix(std::string& text, const TextMatrix& matrix, const TextOptions& options = {});

/// Appends a matrix of weights from 0 to 1 as a heatmap with labels and a scale. A cell is two columns wide;
/// the column labels run downwards. Omits what exceeds the width; a last line reports this.
void append_text_heatmap(std::string& text, const TextMatrix& matrix, const TextOptions& options = {});

/// Appends small heatmaps of weights from 0 to 1 side by side, as many per row as fit the width. A cell is
/// one column wide; with colours it is half a line high. The title is `corner`; labels are not shown.
void append_text_heatmaps(std::string& text, const std::vector<TextMatrix>& matrices,
                          const TextOptions& options = {});

/// Appends a chart of a table in characters: lines on a grid, with a different mark for each column of the
/// table, or horizontal bars. The chart is as wide as options.width, up to 80 columns. Throws
/// std::invalid_argument if a column is missing.
void append_text_chart(std::string& text, const Table& table, const Chart& chart,
                       const TextOptions& options = {});

/// Formats the blocks as one text, in order. Tables, matrices and charts are preceded by a blank line.
[[nodiscard]] std::string text_page(std::span<const PageBlock> blocks, const TextOptions& options);

/// Returns the text, in bold if the options ask for styles.
[[nodiscard]] std::string strong(std::string_view text, const TextOptions& options);

}  // namespace attnctl
