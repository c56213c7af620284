#include "results/select.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace attnctl {
namespace {

/// The sort key of a cell: numbers and booleans by value, then texts. Undefined cells and NaN sort last.
struct SortKey {
  bool undefined = true;
  bool text = false;
  double number = 0;
  std::string word;
};

SortKey key_of(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> SortKey {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<T, std::string>) {
          return {false, true, 0, value};
        } else {
          const auto number = static_cast<double>(value);
          return {std::isnan(number), false, number, {}};
        }
      },
      cell);
}

bool less(const SortKey& a, const SortKey& b) {
  if (a.text != b.text) return b.text;
  return a.text ? a.word < b.word : a.number < b.number;
}

std::vector<std::size_t> sorted_rows(const Table& table, std::size_t column, bool ascending) {
  std::vector<SortKey> keys(table.rows);
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    keys[row] = key_of(cells[column]);
  }
  std::vector<std::size_t> rows(table.rows);
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, [&](std::size_t a, std::size_t b) {
    if (keys[a].undefined || keys[b].undefined) return !keys[a].undefined && keys[b].undefined;
    return ascending ? less(keys[a], keys[b]) : less(keys[b], keys[a]);
  });
  return rows;
}

std::optional<std::size_t> find_column(const Table& table, const std::string& name) {
  const auto found = std::ranges::find(table.columns, name);
  if (found == table.columns.end()) return std::nullopt;
  return static_cast<std::size_t>(std::distance(table.columns.begin(), found));
}

}  // namespace

Table select_rows(const Table& table, const RowSelection& selection) {
  Table selected = table;
  if (selection.top) selected.rows = std::min(table.rows, *selection.top);
  if (!selection.sort) return selected;
  const auto column = find_column(table, *selection.sort);
  if (!column) {
    fail(Status::usage, "--sort {}: no such column; there are {}", escaped(*selection.sort),
         fmt::join(table.columns, ", "));
  }
  const auto rows =
      std::make_shared<const std::vector<std::size_t>>(sorted_rows(table, *column, selection.ascending));
  selected.row = [rows, row = table.row](std::size_t index, std::span<Cell> cells) {
    row((*rows)[index], cells);
  };
  return selected;
}

Table select_columns(const Table& table, const std::vector<std::string>& columns) {
  std::vector<std::size_t> places;
  for (const std::string& name : columns) {
    const auto place = find_column(table, name);
    if (!place) throw std::invalid_argument("the table " + table.name + " has no column " + name);
    places.push_back(*place);
  }
  Table selected{table.name, columns, table.rows, {}};
  selected.row = [places, row = table.row, count = table.columns.size()](std::size_t index,
                                                                         std::span<Cell> cells) {
    std::vector<Cell> all(count);
    row(index, all);
    for (std::size_t i = 0; i < places.size(); ++i) cells[i] = std::move(all[places[i]]);
  };
  return selected;
}

}  // namespace attnctl
