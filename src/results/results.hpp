#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.hpp"
#include "base/warnings.hpp"

/// The result types that analyses return and writers take: Table for rows, Tensor for numbers with named
/// dimensions, View for a drawing of them, and Record, which combines them into a document. Writers depend on
/// these types only, never on an analysis.
namespace attnctl {

/// What the numbers of a column or of a tensor mean. Empty fields are unknown.
struct Meaning {
  std::string unit = {};                  // "tokens"; empty if dimensionless
  std::string lowest = {}, highest = {};  // the range, as numbers or formulas: "0", "log2 keys"
  std::string null = {};                  // the baseline: the value if nothing was learned
  std::string description = {};           // one line
  std::string source = {};                // the publication that defines the numbers

  bool operator==(const Meaning&) const = default;
};

/// A column of a table.
struct Column {
  std::string name;
  Meaning meaning;

  Column(std::string_view column_name, Meaning meant = {}) : name(column_name), meaning(std::move(meant)) {}
  Column(const std::string& column_name) : name(column_name) {}
  Column(const char* column_name) : name(column_name) {}

  bool operator==(const Column&) const = default;
  template <std::convertible_to<std::string_view> Name>
  friend bool operator==(const Column& column, const Name& name) {
    return column.name == name;
  }
};

/// One value of a table. monostate is undefined (null in JSON, empty in CSV). A float is written as the
/// shortest text that reads back to the same float, not double.
using Cell = std::variant<std::monostate, bool, std::int64_t, float, double, std::string>;

/// Rows of cells. Rows may be computed on demand, so that a table with millions of rows need not be in
/// memory: `row` fills the cells (already sized to the columns) and is called from several threads.
struct Table {
  std::string name;
  std::vector<Column> columns;
  std::size_t rows = 0;
  std::function<void(std::size_t index, std::span<Cell> cells)> row;

  /// Returns the index of a column, or nullopt if there is none with this name.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view column) const;
};

/// Returns a table that holds its rows.
[[nodiscard]] Table make_table(std::string name, std::vector<Column> columns,
                               std::vector<std::vector<Cell>> rows);
template <std::same_as<std::string> Name>
[[nodiscard]] Table make_table(std::string name, const std::vector<Name>& columns,
                               std::vector<std::vector<Cell>> rows) {
  return make_table(std::move(name), std::vector<Column>(columns.begin(), columns.end()), std::move(rows));
}

[[nodiscard]] std::vector<std::string> column_names(const Table& table);

/// The rows of a table to show, and their order (--sort COLUMN --top N).
struct RowSelection {
  std::optional<std::string> sort;  // column; largest number or last text first, undefined cells last
  bool ascending = false;
  std::optional<std::size_t> top;  // show at most this number of rows
};

/// Returns the table with its rows sorted (stable) and cut. Throws Error(usage), which lists the columns, if
/// the sort column is missing.
[[nodiscard]] Table select_rows(const Table& table, const RowSelection& selection);

/// Returns the table with only these columns, in this order. Throws std::invalid_argument if one is missing.
[[nodiscard]] Table select_columns(const Table& table, const std::vector<std::string>& columns);

/// A named dimension of a tensor ("layer", "query").
struct Dimension {
  std::string name;
  std::vector<std::string> labels = {};  // one per index, or empty
};

/// Numbers with a shape, row-major and packed. Shares ownership of the values. Non-finite floats become null
/// in JSON.
struct Tensor {
  using Values = std::variant<std::span<const float>, std::span<const double>, std::span<const std::int64_t>>;
  struct Info {
    std::vector<Dimension> dimensions = {};  // one per extent of the shape, or empty
    Meaning meaning = {};
  };

  std::string name;  // in an NPZ; empty in a document
  Shape shape;
  Values values;
  std::shared_ptr<const void> owner;  // keeps the values alive
  std::shared_ptr<const Info> info;   // null if nothing is known

  Tensor() = default;
  Tensor(Shape extents, Values numbers, std::shared_ptr<const void> values_owner)
      : shape(std::move(extents)), values(numbers), owner(std::move(values_owner)) {}
  Tensor(std::string new_name, Tensor unnamed) : Tensor(std::move(unnamed)) { name = std::move(new_name); }

  [[nodiscard]] std::size_t size() const;
  /// Returns the value at a flat index.
  [[nodiscard]] double at(std::size_t index) const;
  /// Sets `info`. Throws std::invalid_argument if the dimensions or labels do not fit the shape.
  Tensor& describe(std::vector<Dimension> dimensions, Meaning meaning = {});
};

/// Returns a tensor that holds its values: float, double or std::int64_t. Throws std::invalid_argument if
/// their number does not fit the shape.
template <typename T>
[[nodiscard]] Tensor make_tensor(Shape shape, std::vector<T> values);

struct Record;
struct Value;
using List = std::vector<Value>;

/// A JSON value that keeps numbers as Tensor: [2, 3] is written as nested lists. A Table is written as a list
/// of objects.
struct Value {
  std::variant<Cell, Tensor, Table, List, std::shared_ptr<const Record>> data;

  Value() = default;
  Value(Cell cell) : data(std::move(cell)) {}
  Value(const char* text) : data(Cell(std::string(text))) {}
  Value(std::string text) : data(Cell(std::move(text))) {}
  Value(bool flag) : data(Cell(flag)) {}
  template <std::integral T>
  Value(T number) : data(Cell(static_cast<std::int64_t>(number))) {}
  template <std::floating_point T>
  Value(T number) : data(Cell(number)) {}
  Value(Tensor tensor) : data(std::move(tensor)) {}
  Value(Table table) : data(std::move(table)) {}
  Value(List list) : data(std::move(list)) {}
  Value(Record record);
};

/// An object with named fields in order.
struct Record {
  std::vector<std::pair<std::string, Value>> fields;

  Record& set(std::string name, Value value) {
    fields.emplace_back(std::move(name), std::move(value));
    return *this;
  }
};

/// A named part of a document: a list of records. `record` is the name of one record in JSON Lines.
struct Section {
  std::string name;    // "patterns"
  std::string record;  // "pattern"
  Value items;         // a List of Records, or a Table
};

/// The input of the JSON and JSON Lines writers: head fields ("schema", "attnctl", "model"), then sections.
struct Document {
  Record head;
  std::vector<Section> sections;
};

/// Returns the number of values that are NaN or infinite. Writers cannot write them as numbers: they become
/// null in JSON, an empty cell in CSV and "-" in text. Undefined values (kUndefined, an empty cell) are not
/// counted.
[[nodiscard]] std::uint64_t count_non_finite(const Value& value);
[[nodiscard]] std::uint64_t count_non_finite(const Table& table);
[[nodiscard]] std::uint64_t count_non_finite(const Tensor& tensor);
[[nodiscard]] std::uint64_t count_non_finite(const Cell& cell);
/// Does not count -inf if `hidden_is_minus_infinity` is set: -inf is the score of a hidden key.
[[nodiscard]] std::uint64_t count_non_finite(std::span<const float> values, bool hidden_is_minus_infinity);

/// The destination of a large tensor during its computation: a buffer in memory or a range of an output file.
class ArraySink {
 public:
  virtual ~ArraySink() = default;
  /// Writes values at `offset`, in elements of the packed tensor. Thread-safe on disjoint ranges. Every
  /// element must be written exactly once.
  virtual void write(std::size_t offset, std::span<const float> values) = 0;
};

/// Takes named arrays in the order of the output. Streamed arrays are written while they are computed.
class ArrayOutput {
 public:
  virtual ~ArrayOutput() = default;
  virtual void add(const std::string& name, const Tensor& tensor) = 0;
  /// Declares an array of float32. The sink is valid as long as this output.
  virtual ArraySink& add_streamed(const std::string& name, const Shape& shape,
                                  bool hidden_is_minus_infinity) = 0;
};

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
