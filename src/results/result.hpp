#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.hpp"

/// The result types that analyses return and writers take: Table for flat rows, Array for numbers with a
/// shape, and Record, which combines them into a document. Writers depend on these types only, never on an
/// analysis.
namespace attnctl {

/// One value of a table. monostate is undefined (null in JSON, empty in CSV). A float is written as the
/// shortest text that reads back to the same float, not double.
using Cell = std::variant<std::monostate, bool, std::int64_t, float, double, std::string>;

/// Rows of cells with named columns. Rows may be computed on demand, so that a table with millions of rows
/// need not be in memory: `row` fills the cells (already sized to the columns) and is called from several
/// threads.
struct Table {
  std::string name;
  std::vector<std::string> columns;
  std::size_t rows = 0;
  std::function<void(std::size_t index, std::span<Cell> cells)> row;
};

/// Returns a table that holds its rows.
[[nodiscard]] Table make_table(std::string name, std::vector<std::string> columns,
                               std::vector<std::vector<Cell>> rows);

/// Numbers with a shape, row-major and packed. Shares ownership of the values. Non-finite floats become null
/// in JSON.
struct Array {
  using Values = std::variant<std::span<const float>, std::span<const double>, std::span<const std::int64_t>>;
  Shape shape;
  Values values;
  std::shared_ptr<const void> owner;  // keeps the values alive

  [[nodiscard]] std::size_t size() const;
};

[[nodiscard]] Array make_array(Shape shape, std::vector<float> values);
[[nodiscard]] Array make_array(Shape shape, std::vector<double> values);
[[nodiscard]] Array make_array(Shape shape, std::vector<std::int64_t> values);

struct Record;
struct Value;
using List = std::vector<Value>;

/// A JSON value that keeps arrays of numbers as Array: [2, 3] is written as nested lists. A Table is written
/// as a list of objects.
struct Value {
  std::variant<Cell, Array, Table, List, std::shared_ptr<const Record>> data;

  Value() = default;
  Value(Cell cell) : data(std::move(cell)) {}                 // NOLINT(google-explicit-constructor)
  Value(const char* text) : data(Cell(std::string(text))) {}  // NOLINT(google-explicit-constructor)
  Value(std::string text) : data(Cell(std::move(text))) {}    // NOLINT(google-explicit-constructor)
  Value(bool flag) : data(Cell(flag)) {}                      // NOLINT(google-explicit-constructor)
  Value(std::int64_t number) : data(Cell(number)) {}          // NOLINT(google-explicit-constructor)
  Value(std::size_t number)
      : data(Cell(static_cast<std::int64_t>(number))) {}                // NOLINT(google-explicit-constructor)
  Value(int number) : data(Cell(static_cast<std::int64_t>(number))) {}  // NOLINT(google-explicit-constructor)
  Value(float number) : data(Cell(number)) {}                           // NOLINT(google-explicit-constructor)
  Value(double number) : data(Cell(number)) {}                          // NOLINT(google-explicit-constructor)
  Value(Array array) : data(std::move(array)) {}                        // NOLINT(google-explicit-constructor)
  Value(Table table) : data(std::move(table)) {}                        // NOLINT(google-explicit-constructor)
  Value(List list) : data(std::move(list)) {}                           // NOLINT(google-explicit-constructor)
  Value(Record record);                                                 // NOLINT(google-explicit-constructor)
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

/// One array of an NPZ.
struct NamedArray {
  std::string name;
  Array array;
};

/// The destination of a large array during its computation: a buffer in memory or a range of an output file.
class ArraySink {
 public:
  virtual ~ArraySink() = default;
  /// Writes values at `offset`, in elements of the packed array. Thread-safe on disjoint ranges. Every
  /// element must be written exactly once.
  virtual void write(std::size_t offset, std::span<const float> values) = 0;
};

/// Takes named arrays in the order of the output. Streamed arrays are written while they are computed.
class ArrayOutput {
 public:
  virtual ~ArrayOutput() = default;
  virtual void add(const std::string& name, const Array& array) = 0;
  /// Declares an array of float32. The sink is valid as long as this output.
  virtual ArraySink& add_streamed(const std::string& name, const Shape& shape,
                                  bool hidden_is_minus_infinity) = 0;
};

}  // namespace attnctl
