#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/results.hpp"

namespace attnctl {

/// Text for people at a terminal. Whatever comes from a file is made safe for it (attnctl::escaped).
struct TextOptions {
  bool styled = false;  // bold and dim by ANSI sequences: the caller knows the terminal and NO_COLOR
  std::optional<int> digits = {};  // decimals; by default what the column needs
  std::size_t width = 80;          // columns of the terminal, for matrices and heatmaps
  bool colours = false;            // 256 colours, for heatmaps; shades of blocks where there are none
  std::atomic<std::uint64_t>* non_finite = nullptr;  // adds the number of values that count_non_finite counts
};

/// Appends a table with aligned columns: a header, numbers to the right, texts to the left, undefined as "-".
/// Without `digits` a column of floats has as many decimals as give its largest number three digits, three at
/// most unless all are below 0.1.
void append_text_table(std::string& text, const Table& table, const TextOptions& options = {});

/// Appends a matrix, two decimals unless `digits` says otherwise, strong cells (over a half in magnitude)
/// bold and faint ones dim where styled. What does not fit the width or `most_rows` is left out, and a last
/// line says so.
void append_text_matrix(std::string& text, const TextMatrix& matrix, const TextOptions& options = {});

/// Appends a matrix of weights from 0 to 1 as a heatmap, a cell two columns wide, with its labels (those of
/// the columns run downwards) and the scale. What does not fit is left out, and a last line says so.
void append_text_heatmap(std::string& text, const TextMatrix& matrix, const TextOptions& options = {});

/// Small heatmaps of weights from 0 to 1 side by side, as many as fit the width in each row; a cell is one
/// column wide, and half a line high in colours. `corner` is their title; labels are left out.
void append_text_heatmaps(std::string& text, const std::vector<TextMatrix>& matrices,
                          const TextOptions& options = {});

/// The text in bold where options say so.
[[nodiscard]] std::string strong(std::string_view text, const TextOptions& options);

}  // namespace attnctl
