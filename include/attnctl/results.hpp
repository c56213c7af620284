#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attn {

/// One value of a table. std::monostate: undefined.
using Cell = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

/// Rows of cells with named columns.
struct Table {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;  // [rows][columns]

  /// Returns the index of a column. Throws Error(usage) if there is none with this name.
  [[nodiscard]] std::size_t column(std::string_view column) const;
};

/// Numbers with a shape, row-major.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;  // [product of `shape`]; NaN: undefined
};

/// The tables and tensors of an analysis.
struct Results {
  std::vector<Table> tables;
  std::vector<Tensor> tensors;

  /// Return the table or tensor with this name. Throw Error(usage), which lists the names, if there is none.
  [[nodiscard]] const Table& table(std::string_view name) const;
  [[nodiscard]] const Tensor& tensor(std::string_view name) const;
};

}  // namespace attn
