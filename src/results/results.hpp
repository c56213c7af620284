#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/warnings.hpp"
#include "results/result.hpp"

namespace attnctl {

/// The colour scale of a heatmap from `low` to `high`. Diverging: blue, white, red. Sequential: white to dark
/// blue. Values outside the range have the colour of the nearer end; undefined values (NaN) are grey.
struct HeatmapScale {
  bool diverging = true;
  double low = -1;
  double high = 1;
  std::string label;  // next to the colour bar
};

/// One matrix with its labels. The first row is at the top.
struct Heatmap {
  std::string title;
  std::string x_axis;
  std::string y_axis;
  std::vector<std::string> x_labels;  // one per column, or empty
  std::vector<std::string> y_labels;  // one per row, or empty
  Tensor values;                      // [rows, columns], float or double
};

/// One heatmap, or a grid of heatmaps (layers by heads), with a common scale and colour bar. A grid has the
/// axes of its first heatmap. Tick labels that all heatmaps share are drawn at the edge of the grid only.
struct HeatmapPage {
  std::string title;  // of a grid; a single heatmap has its own
  HeatmapScale scale;
  std::size_t columns = 1;  // number of grid columns
  std::vector<Heatmap> heatmaps;
  std::vector<std::string> cell_texts =
      {};  // [rows * columns], shown instead of the values of a single heatmap
};

/// A drawing of table columns: as lines over column `x`, or as one group of bars per row, labelled with the
/// cell of `x`. Undefined cells leave gaps.
struct Chart {
  std::string title;
  std::string x;                         // name of a column
  std::vector<std::string> y;            // names of columns, one line per column
  std::string x_axis = {}, y_axis = {};  // axis labels
  bool log_x = false;                    // logarithmic axes for lines; omits values that are not positive
  bool log_y = false;
  bool bars = false;        // bars from 0 instead of lines
  bool points = false;      // dots without lines, with the same scale on both axes
  std::string labels = {};  // for points: a column of labels, drawn next to points if there is space
};

/// Charts of one table on one page.
struct ChartPage {
  std::string title;
  Table table;
  std::vector<Chart> charts;
};

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
  Tensor values;                           // [rows, columns], float or double
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

/// A drawing of results for SVG output, selected by its name.
struct View {
  std::string name;
  std::variant<HeatmapPage, ChartPage> page;
};
using Picture = View;  // the former name

/// The results of an analysis, a study or an experiment. Writers know only this type. Each writer uses the
/// members that its format can hold.
struct Results {
  Document document = {};            // JSON, JSON Lines
  std::vector<Table> tables = {};    // CSV
  std::vector<Tensor> arrays = {};   // NPZ
  std::vector<PageBlock> text = {};  // text
  std::vector<View> pictures = {};   // SVG: the first, unless the user names another
  std::string picture_hint = {};     // advice in the error message for a missing picture

  /// Appends the parts of other results; their head fields come after those here.
  void append(Results&& other);
};

/// Returns the table with this name. Throws Error(usage), which lists the names, if there is none.
[[nodiscard]] const Table& table_named(const Results& results, const std::string& name);

/// Returns the view with this name, or the first one if `name` is empty. Throws Error(usage) if there is
/// none.
[[nodiscard]] const View& view_named(const Results& results, const std::string& name);

/// Returns {"code", "message", "count"}.
[[nodiscard]] Record warning_record(const Warning& warning);

}  // namespace attnctl
