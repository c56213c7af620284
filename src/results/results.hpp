#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.hpp"
#include "base/error.hpp"

/// The types of results that analyses return and writers read: Table (rows of cells), Tensor (an array of
/// numbers), Record (named values, tensors and tables, for JSON), PageBlock (a part of a text page) and View
/// (a drawing). Writers depend only on these types, not on analyses.
namespace attnctl {

/// One value of a table. std::monostate means undefined (null in JSON, empty in CSV, "-" in text). Without
/// --digits, JSON and CSV contain the shortest text that reads back to the same float or double.
using Cell = std::variant<std::monostate, bool, std::int64_t, float, double, std::string>;

/// Returns the number in a cell; kUndefined if it has none.
[[nodiscard]] double number_of(const Cell& cell);

[[nodiscard]] inline Cell count_cell(std::size_t count) {
  return static_cast<std::int64_t>(count);
}

/// Functions for the alternatives of a variant, as one argument of std::visit.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

/// What the values of a column mean. The source file of an analysis defines them as constants.
struct Definition {
  std::string_view name;         // of the column and of the JSON key
  std::string_view unit;         // "nats", "tokens"; empty: no unit
  std::string_view range;        // "[0, 1]"; empty if not given
  std::string_view null;         // the value of a head without the measured behaviour; empty if unknown
  std::string_view meaning;      // one line
  std::string_view source = {};  // publication; may be empty
};

/// The columns that identify a row, such as component, layer, head and input, and `rows`.
[[nodiscard]] std::span<const Definition> key_definitions();

/// A column of a table. Columns whose names depend on the data, such as one per head, have no definition.
struct Column {
  std::string name;
  const Definition* definition = nullptr;  // a constant, or null

  template <std::convertible_to<std::string_view> Text>
  Column(const Text& column_name) : name(std::string_view(column_name)) {}
  Column(const Definition& of) : name(of.name), definition(&of) {}
  /// A column that has another name than its definition: "qk_mean" of "mean".
  Column(std::string column_name, const Definition& of) : name(std::move(column_name)), definition(&of) {}
  operator const std::string&() const { return name; }
  friend bool operator==(const Column& a, const Column& b) { return a.name == b.name; }
};

/// Returns the columns with these names, each with its definition among `definitions` or key_definitions().
/// Throws std::invalid_argument if a name has no definition.
[[nodiscard]] std::vector<Column> columns_of(std::span<const Definition> definitions,
                                             std::initializer_list<std::string_view> names);

/// The definitions of an analysis, a measure or an experiment, which is named by `where`.
struct NamedDefinitions {
  std::string_view where;
  std::span<const Definition> definitions;
};

/// A table of cells. The rows may be computed on demand, so that a table with millions of rows need not be in
/// memory. `row` fills the cells of one row (the span has one cell per column) and is called from several
/// threads.
struct Table {
  std::string name;
  std::vector<Column> columns;
  std::size_t rows = 0;
  std::function<void(std::size_t index, std::span<Cell> cells)> row;

  [[nodiscard]] std::optional<std::size_t> find(std::string_view column) const;
};

/// Stores the rows in memory. Throws std::invalid_argument if a row does not have one cell per column.
[[nodiscard]] Table make_table(std::string name, std::vector<Column> columns,
                               std::vector<std::vector<Cell>> rows);

/// Returns the table with its rows sorted by the column `sort` (stable; the largest number or the last text
/// is first, undefined cells and NaN are last), and limited to the first `top` rows, if given. If `sort` is
/// empty, the order does not change. Throws Error(usage), which lists the columns, if the column does not
/// exist.
[[nodiscard]] Table select_rows(const Table& table, const std::string& sort, std::optional<std::size_t> top);

/// Returns only these columns, in this order. Throws Error(usage), which names --columns and lists the
/// columns, if one of them does not exist.
[[nodiscard]] Table select_columns(const Table& table, const std::vector<std::string>& columns);

/// An array of numbers, row-major and packed. Copies share the values. Non-finite floats become null in JSON.
struct Tensor {
  using Values = std::variant<std::span<const float>, std::span<const double>, std::span<const std::int64_t>>;

  std::string name;  // name of the array in an NPZ file; empty in a document
  Shape shape;
  Values values;
  std::shared_ptr<const void> owner;  // keeps `values` alive

  Tensor() = default;
  Tensor(Shape extents, Values numbers, std::shared_ptr<const void> values_owner)
      : shape(std::move(extents)), values(numbers), owner(std::move(values_owner)) {}
  Tensor(std::string new_name, Tensor unnamed) : Tensor(std::move(unnamed)) { name = std::move(new_name); }

  [[nodiscard]] std::size_t size() const;
  /// Returns the value at an index into the packed elements.
  [[nodiscard]] double at(std::size_t index) const;
};

/// The tensor owns its values. Throws std::invalid_argument if their number does not match the shape.
template <typename T>
[[nodiscard]] Tensor make_tensor(Shape shape, std::vector<T> values);

struct Record;
struct Value;
using List = std::vector<Value>;

/// A JSON value in which arrays of numbers are stored as Tensor. A tensor of shape [2, 3] is written as
/// nested lists, and a Table as a list of objects.
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
  template <typename T>
  Value(const std::optional<T>& value) : Value(value ? Value(*value) : Value()) {}
  template <typename T>
  Value(const std::vector<T>& items) : data(List(items.begin(), items.end())) {}
};

/// An object with named fields. The order of the fields is kept.
struct Record {
  std::vector<std::pair<std::string, Value>> fields;

  Record& set(std::string name, Value value) {
    fields.emplace_back(std::move(name), std::move(value));
    return *this;
  }
};

/// A named list of records in a document. `record` is the name of a single record in JSON Lines.
struct Section {
  std::string name;    // "patterns"
  std::string record;  // "pattern"
  Value items;         // a List of Records, or a Table
};

/// A JSON document: first the fields of `head` (such as "schema" and "model"), then the sections.
struct Document {
  Record head;
  std::vector<Section> sections;
};

/// Return the number of values that are NaN or infinite. Writers replace these values: by null in JSON, an
/// empty cell in CSV, and "-" in the tables and matrices of a text page. NPZ keeps them. Undefined values
/// (kUndefined, or an undefined cell) are not counted.
[[nodiscard]] std::uint64_t count_non_finite(const Value& value);
[[nodiscard]] std::uint64_t count_non_finite(const Table& table);
[[nodiscard]] std::uint64_t count_non_finite(const Tensor& tensor);
[[nodiscard]] std::uint64_t count_non_finite(const Cell& cell);
/// Does not count -inf if `hidden_is_minus_infinity` is true, because -inf is then the score of a masked key.
[[nodiscard]] std::uint64_t count_non_finite(std::span<const float> values, bool hidden_is_minus_infinity);

/// The destination of a large tensor while it is computed: a buffer in memory, or a range of an output file.
class ArraySink {
 public:
  virtual ~ArraySink() = default;
  /// `offset` counts elements. Each element must be written once. Thread-safe if the ranges do not overlap.
  virtual void write(std::size_t offset, std::span<const float> values) = 0;
};

/// Receives named arrays in the order of the output.
class ArrayOutput {
 public:
  virtual ~ArrayOutput() = default;
  virtual void add(const std::string& name, const Tensor& tensor) = 0;
  /// Adds a float32 array that is written through the returned sink while it is computed. The sink is valid
  /// as long as this object. `hidden_is_minus_infinity`: see count_non_finite().
  virtual ArraySink& add_streamed(const std::string& name, const Shape& shape,
                                  bool hidden_is_minus_infinity) = 0;
};

/// The colour scale of a heatmap, from `low` to `high`. By default, a diverging scale is blue, white, red; a
/// sequential one is white to dark blue. A value outside the range has the colour of the nearer end.
/// Undefined values (NaN) are grey, or light orange with the colormap `greys`.
struct HeatmapScale {
  bool diverging = true;
  double low = -1;
  double high = 1;
  std::string label;          // text next to the colour bar
  bool logarithmic = false;   // sequential scales only; `low` is then positive
  std::string colormap = {};  // a name, or empty for the default
};

/// A cluster tree of the columns of a heatmap, drawn above them. n merges join the first n + 1 columns, which
/// are the clusters 0 to n. Merge i makes the cluster n + 1 + i.
struct ColumnTree {
  struct Join {
    std::size_t first = 0, second = 0;  // clusters, from left to right
    double distance = 0;
  };
  std::string axis;                        // name of the distances
  std::vector<Join> merges;                // by ascending distance; if empty, nothing is drawn
  std::vector<std::string> groups;         // names of groups of columns, such as layers; may be empty
  std::vector<std::size_t> column_groups;  // [columns], indices into `groups`; empty without groups
};

/// One matrix and its labels. The first row is at the top.
struct Heatmap {
  std::string title;
  std::string x_axis;
  std::string y_axis;
  std::vector<std::string> x_labels;  // one per column, or empty
  std::vector<std::string> y_labels;  // one per row, or empty
  Tensor values;                      // [rows, columns], float or double
  ColumnTree tree = {};
  std::vector<std::string> heads = {};  // names of the heads of the rows and columns, if these are heads
};

/// One heatmap, or a grid of heatmaps (for example layers by heads), with a common scale and colour bar. The
/// axis titles of a grid are those of its first heatmap. If all heatmaps have the same shape and labels and
/// no tree, tick labels are drawn only at the left and lower edge of the grid.
struct HeatmapPage {
  std::string title;
  HeatmapScale scale;
  std::size_t columns = 0;  // number of columns of the grid; 0: the writer chooses up to 6
  std::vector<Heatmap> heatmaps;
  std::vector<std::string> cell_texts =
      {};  // [rows * columns], shown instead of the values of a single heatmap; empty for a grid
  std::vector<std::string> subtitle = {};  // lines below the title
  bool small_values = false;               // cells also show values below 0.01 in magnitude, as 0.00
  /// What the letters of `cell_texts` mean: "I induction: ..."; empty texts are not drawn. The letter of
  /// legend[i] has colour i; after the last colour, that of other text.
  std::vector<std::string> legend = {};

  /// Sets the ends of the scale: the largest finite magnitude, and 0 or, if diverging, its negative. If
  /// `may_be_logarithmic` is true and most positive values are less than a tenth of the largest one, the
  /// scale becomes logarithmic and covers at most three decades.
  void fit_scale(bool may_be_logarithmic = false);
};

/// A drawing of columns of a table: lines or points over column `x`, or one group of bars per row with the
/// cell of `x` as label. Cells that are undefined or not finite are left out; a line connects their
/// neighbours.
struct Chart {
  std::string title;
  std::string x;                         // name of a column
  std::vector<std::string> y;            // names of columns; one line or bar colour per column
  std::string x_axis = {}, y_axis = {};  // axis labels
  bool log_x = false;   // logarithmic axis, without values that are not positive; ignored for bars
  bool log_y = false;   // like log_x
  bool bars = false;    // bars from 0 instead of lines
  bool points = false;  // points without lines; linear axes have the same scale if their ranges are similar
  /// Points only: a column whose texts SVG shows as tooltips and next to the points.
  std::string labels = {};
  bool outline = false;  // points only: draw the convex polygon whose corners are the points of the first y
};

struct ChartPage {
  std::string title;
  Table table;
  std::vector<Chart> charts;
  std::vector<std::string> subtitle = {};  // lines below the title
};

/// A line of a text page. It begins with `strong`, which is bold on a terminal; `plain` follows.
struct TextLine {
  std::string strong;
  std::string plain = {};
};

struct TextTable {
  std::string title;
  Table table;
  std::optional<int> digits = {};  // number of decimals if the user did not choose one
  bool grid = false;               // a table by layer and head: rather has fewer decimals than fewer columns
  std::optional<std::size_t> first_columns =
      {};  // number of columns shown without --columns all; default: all
};

/// A matrix with labelled rows and columns.
struct TextMatrix {
  std::string corner;                      // title above the row labels ("query"), or of a small heatmap
  std::vector<std::string> row_labels;     // one per row; if empty, row numbers are used
  std::vector<std::string> column_labels;  // one per column; if empty, column numbers are used
  Tensor values;                           // [rows, columns], float or double
  std::size_t most_rows = 64;              // largest number of rows that are shown without --columns all
  std::string advice = {};                 // end of the note about omitted rows and columns
};

/// Matrices, shown as numbers, as heatmaps of weights from 0 to 1, or as small heatmaps side by side.
struct TextMatrices {
  enum class Style { numbers, heatmaps, small_heatmaps };
  std::string title;
  std::vector<TextMatrix> matrices;
  Style style = Style::numbers;
};

using PageBlock = std::variant<TextLine, TextTable, TextMatrices, ChartPage>;

/// A drawing of results. The user selects it by name.
struct View {
  std::string name;
  std::variant<HeatmapPage, ChartPage> page;
};

/// The attention of some heads on one input, for an HTML page. n is the number of queries, m the number of
/// keys.
struct Attention {
  struct Head {
    std::int64_t layer = 0, head = 0;
    std::string name;
    std::size_t kv = 0;  // index of its key vectors in `key_vectors`
    double scale = 1;    // q k^T is multiplied by this
  };
  /// The words of the tokens, if queries and keys are the same tokens.
  struct WordLabels {
    std::vector<std::string> labels;
    std::vector<std::size_t> of;  // [n], the word of each token
  };
  /// The pixels of an image, whose patches are the last tokens, row by row.
  struct Image {
    std::size_t rows = 0, columns = 0;  // of patches
    Tensor pixels;                      // [3, height, width], red, green and blue, from 0 to 255
  };

  std::string input, component, text;      // texts are empty if there are none
  std::vector<std::string> queries, keys;  // [n] and [m], labels of the tokens or words
  std::vector<Head> heads;                 // by ascending layer
  Tensor patterns;                         // [heads, n, m]
  // For the neuron view; all three or none. Their vectors have the same width.
  Tensor scores;         // [heads, n, m]
  Tensor query_vectors;  // [heads, n, d]
  Tensor key_vectors;    // [key/value heads, m, d]
  std::optional<WordLabels> words = {};
  std::optional<Image> image = {};
};

/// The results of an analysis, a study or an experiment. Each format uses the members whose comments name it;
/// heads_page(), which draws a picture, also uses `tables`.
struct Results {
  Document document = {};                 // JSON, JSON Lines
  std::vector<Table> tables = {};         // CSV
  std::vector<Tensor> arrays = {};        // NPZ
  std::vector<PageBlock> text = {};       // text
  std::vector<View> pictures = {};        // SVG, PNG, PDF: the first, or the one that the user names
  std::vector<Attention> attention = {};  // HTML, which also has `tables`, `pictures` and the lines of `text`
  std::vector<std::string> subtitle = {};  // for heads_page(): model name, and the text of a single input
  std::string picture_hint = {};  // advice in the error message if a picture is wanted and there is none

  /// Appends the members of `other`. Its picture hint is used only if this object has none.
  void append(Results&& other);
  /// Adds a CSV table, which is also a section of the document with records of the name `record`.
  void add_table(const std::string& record, const Table& table) {
    document.sections.push_back({table.name, record, table});
    tables.push_back(table);
  }
};

/// Returns the table with this name. Throws Error(usage), which lists all names, if there is none.
[[nodiscard]] const Table& table_named(const Results& results, const std::string& name);

/// Returns the view with this name; the first view if `name` is empty. Throws Error(usage) if there is none.
[[nodiscard]] const View& view_named(const Results& results, const std::string& name);

/// Returns heatmaps [layers, heads] of a column of numbers, which `plot` selects: COLUMN, or TABLE.COLUMN.
/// There is one for each combination of the texts (except names of heads), and of the numbers in the columns
/// offset, position, first and last, in the columns before it.
/// "=WORDS" after the column selects the heatmaps whose titles contain each of the words, with underscores or
/// spaces. Of more than 24 heatmaps, keeps those with the largest numbers in the column `count`, or else the
/// first ones, and adds a line to the subtitle.
/// All heatmaps of a component have the layers and heads of the table. Throws Error(usage) if no table has
/// this column after a column `head`, if it has no numbers, or if no title has the words. With
/// `draw_undefined`, undefined numbers are cells without a value instead.
[[nodiscard]] HeatmapPage heads_page(const Results& results, const std::string& plot,
                                     bool draw_undefined = false);

[[nodiscard]] Record warning_record(const Warning& warning);

}  // namespace attnctl
