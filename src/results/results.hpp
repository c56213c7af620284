#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/warnings.hpp"
#include "results/heatmap.hpp"
#include "results/result.hpp"

namespace attnctl {

/// A line of a text page. `strong` is its beginning, bold on a terminal.
struct TextLine {
  std::string strong;
  std::string plain = {};
};

/// A table of a text page.
struct TextTable {
  std::string title;
  Table table;
  std::optional<int> digits = {};  // number of decimals, unless the user chose one
};

/// A matrix with labelled rows and columns.
struct TextMatrix {
  std::string corner;                      // title above the row labels: "query"
  std::vector<std::string> row_labels;     // one per row, or empty: row numbers
  std::vector<std::string> column_labels;  // one per column, or empty: column numbers
  Array values;                            // [rows, columns], float or double
  std::size_t most_rows = 64;
};

/// Matrices of a text page: as numbers, as heatmaps of weights from 0 to 1, or as small heatmaps side by
/// side.
struct TextMatrices {
  enum class Style { numbers, heatmaps, small_heatmaps };
  std::string title;
  std::vector<TextMatrix> matrices;
  Style style = Style::numbers;
};

using PageBlock = std::variant<TextLine, TextTable, TextMatrices, ChartPage>;

/// A picture for SVG output, selected by its name.
struct Picture {
  std::string name;
  std::variant<HeatmapPage, ChartPage> page;
};

/// The results of an analysis, a study or an experiment. Writers know only this type. Each writer uses the
/// members that its format can hold.
struct Results {
  Document document = {};               // JSON, JSON Lines
  std::vector<Table> tables = {};       // CSV
  std::vector<NamedArray> arrays = {};  // NPZ
  std::vector<PageBlock> text = {};     // text
  std::vector<Picture> pictures = {};   // SVG: the first, unless the user names another
  std::string picture_hint = {};        // advice in the error message for a missing picture

  /// Appends the parts of other results; their head fields come after those here.
  void append(Results&& other);
};

/// Returns the table with this name. Throws Error(usage), which lists the names, if there is none.
[[nodiscard]] const Table& table_named(const Results& results, const std::string& name);

/// Returns the picture with this name, or the first one if `name` is empty. Throws Error(usage) if there is
/// none.
[[nodiscard]] const Picture& picture_named(const Results& results, const std::string& name);

/// Returns {"code", "message", "count"}.
[[nodiscard]] Record warning_record(const Warning& warning);

}  // namespace attnctl
