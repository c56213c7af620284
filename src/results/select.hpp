#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "results/result.hpp"

namespace attnctl {

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

}  // namespace attnctl
