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

/// The result shapes that analyses give and writers take: Table for flat rows, Array for numbers with a
/// shape, and Record, which joins them into a document. Writers know these alone and no analysis.
namespace attnctl {

/// One value of a table; monostate is undefined (null in JSON, empty in CSV). float keeps its own shortest
/// text.
using Cell = std::variant<std::monostate, bool, std::int64_t, float, double, std::string>;

/// Rows of cells under named columns. Rows may be made on demand, so that a table of millions of rows need
/// not be held: `row` fills the cells (already sized to the columns) and is called from several threads.
struct Table {
  std::string name;
  std::vector<std::string> columns;
  std::size_t rows = 0;
  std::function<void(std::size_t index, std::span<Cell> cells)> row;
};

/// A table that holds its rows.
[[nodiscard]] Table make_table(std::string name, std::vector<std::string> columns,
                               std::vector<std::vector<Cell>> rows);

/// Numbers with a shape, row-major and packed; shares what it refers to. Non-finite floats are null in JSON.
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

/// A JSON value whose arrays of numbers stay arrays of numbers: [2, 3] is written as nested lists. A Table is
/// written as a list of objects.
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

/// Named fields in their order: an object.
struct Record {
  std::vector<std::pair<std::string, Value>> fields;

  Record& set(std::string name, Value value) {
    fields.emplace_back(std::move(name), std::move(value));
    return *this;
  }
};

/// A part of a document: a list of records under a name; `record` is what one of them is called in JSON
/// Lines.
struct Section {
  std::string name;    // "patterns"
  std::string record;  // "pattern"
  Value items;         // a List of Records, or a Table
};

/// What the JSON and JSON Lines writers take: head fields ("schema", "attnctl", "model"), then sections.
struct Document {
  Record head;
  std::vector<Section> sections;
};

/// How to draw columns of a table as lines over another one, or as bars, a group a row with the cell of x
/// under it, whatever it holds. Undefined cells leave gaps.
struct Chart {
  std::string title;
  std::string x;                         // a column
  std::vector<std::string> y;            // columns, a line each
  std::string x_axis = {}, y_axis = {};  // labels
  bool log_x = false;                    // logarithmic axes of lines; what is not positive is left out
  bool log_y = false;
  bool bars = false;        // from 0
  bool points = false;      // dots alone, a unit as long across as upwards
  std::string labels = {};  // of points: a column, written beside each where there is room
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

/// Where large arrays go as they are computed: a buffer in memory, or their place in an output file.
class ArraySink {
 public:
  virtual ~ArraySink() = default;
  /// Puts values at `offset` (in elements of the packed array). Safe from several threads on disjoint ranges;
  /// every element is written exactly once.
  virtual void write(std::size_t offset, std::span<const float> values) = 0;
};

}  // namespace attnctl
