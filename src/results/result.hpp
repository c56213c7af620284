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

/// The result types that analyses return and writers take: Table for rows, Tensor for numbers with named
/// dimensions, and Record, which combines them into a document. Writers depend on these types only, never on
/// an analysis.
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

  Column(std::string_view column_name, Meaning meant = {})  // NOLINT(google-explicit-constructor)
      : name(column_name), meaning(std::move(meant)) {}
  Column(const std::string& column_name) : name(column_name) {}  // NOLINT(google-explicit-constructor)
  Column(const char* column_name) : name(column_name) {}         // NOLINT(google-explicit-constructor)

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

/// Return a tensor that holds its values. Throw std::invalid_argument if their number does not fit the shape.
[[nodiscard]] Tensor make_tensor(Shape shape, std::vector<float> values);
[[nodiscard]] Tensor make_tensor(Shape shape, std::vector<double> values);
[[nodiscard]] Tensor make_tensor(Shape shape, std::vector<std::int64_t> values);

// Former names.
using Array = Tensor;
using NamedArray = Tensor;
template <typename T>
[[nodiscard]] Tensor make_array(Shape shape, std::vector<T> values) {
  return make_tensor(std::move(shape), std::move(values));
}

struct Record;
struct Value;
using List = std::vector<Value>;

/// A JSON value that keeps numbers as Tensor: [2, 3] is written as nested lists. A Table is written as a list
/// of objects.
// NOLINTBEGIN(google-explicit-constructor): values are written as JSON is
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
// NOLINTEND(google-explicit-constructor)

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
  virtual void add(const std::string& name, const Array& array) = 0;
  /// Declares an array of float32. The sink is valid as long as this output.
  virtual ArraySink& add_streamed(const std::string& name, const Shape& shape,
                                  bool hidden_is_minus_infinity) = 0;
};

}  // namespace attnctl
