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

/// A table of cells with named columns.
struct Table {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;  // [rows][columns]

  /// Returns the index of the column with this name. Throws Error(usage) if the table has no such column.
  [[nodiscard]] std::size_t column(std::string_view column) const;
};

/// An array of numbers in row-major order.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;  // [product of `shape`]; NaN means undefined
};

/// The tables and tensors of an analysis.
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
