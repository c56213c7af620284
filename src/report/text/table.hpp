#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "results/result.hpp"

namespace attnctl {

/// Which rows of a table are shown, and in which order (--sort COLUMN --top N).
struct RowSelection {
  std::optional<std::string> sort;  // a column; the largest number (the last text) first, undefined last
  bool ascending = false;
  std::optional<std::size_t> top;  // so many rows at most
};

/// The table with its rows sorted (ties keep their order) and cut. Throws Error(usage) where there is no such
/// column, naming those that are.
[[nodiscard]] Table select_rows(const Table& table, const RowSelection& selection);

/// The table with these columns only, in this order; throws std::invalid_argument where one is missing.
[[nodiscard]] Table select_columns(const Table& table, const std::vector<std::string>& columns);

}  // namespace attnctl
