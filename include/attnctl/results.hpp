#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attn {

/// One value of a table. std::monostate means that the value is undefined.
using Cell = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

/// The type of the values of a column, of which some may be undefined. float32 and float64 are both `double`
/// in a Cell; float32 means that each value is a float. Columns of several types of numbers have the wider
/// one.
enum class ColumnType { undefined, boolean, integer, float32, float64, text };

/// A table of cells with named columns.
struct Table {
  std::string name;
  std::vector<std::string> columns;
  std::vector<ColumnType> types;        // [columns]; undefined: no row has a value
  std::vector<std::vector<Cell>> rows;  // [rows][columns]

  /// Returns the index of the column with this name. Throws Error(usage) if the table has no such column.
  [[nodiscard]] std::size_t column(std::string_view column) const;
};

/// An array of numbers in row-major order.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  /// [product of `shape`], in the type of the array in an NPZ file; NaN means undefined.
  std::variant<std::vector<float>, std::vector<double>, std::vector<std::int64_t>> values;

  /// Returns `values`. Throws Error(usage) if they are not float32; those of patterns and of metrics are.
  [[nodiscard]] const std::vector<float>& floats() const;
};

/// The tables and tensors of an analysis, a study or a comparison.
struct Results {
  std::vector<Table> tables;
  std::vector<Tensor> tensors;

  /// Returns the table with this name. Throws Error(usage) if it does not exist; the message lists all names.
  [[nodiscard]] const Table& table(std::string_view name) const;
  /// Returns the tensor with this name. Throws Error(usage) if it does not exist; the message lists all
  /// names.
  [[nodiscard]] const Tensor& tensor(std::string_view name) const;
};

}  // namespace attn
