#include "report/non_finite.hpp"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/undefined.hpp"

namespace attnctl {
namespace {

template <typename T>
std::uint64_t count_in(std::span<const T> values, bool hidden_is_minus_infinity) {
  bool finite = true;  // no early exit, so that the loop is vectorised
  for (const T value : values) finite &= std::abs(value) <= std::numeric_limits<T>::max();
  if (finite) return 0;
  std::uint64_t count = 0;
  for (const T value : values) {
    const bool hidden = hidden_is_minus_infinity && value == -std::numeric_limits<T>::infinity();
    if (is_non_finite(value) && !hidden) ++count;
  }
  return count;
}

}  // namespace

std::uint64_t count_non_finite(const Value& value) {
  return std::visit(
      [](const auto& data) -> std::uint64_t {
        using T = std::decay_t<decltype(data)>;
        std::uint64_t count = 0;
        if constexpr (std::is_same_v<T, List>) {
          for (const Value& item : data) count += count_non_finite(item);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Record>>) {
          for (const auto& [name, field] : data->fields) count += count_non_finite(field);
        } else {
          count = count_non_finite(data);
        }
        return count;
      },
      value.data);
}

std::uint64_t count_non_finite(const Table& table) {
  std::uint64_t count = 0;
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    for (const Cell& cell : cells) count += count_non_finite(cell);
  }
  return count;
}

std::uint64_t count_non_finite(const Array& array) {
  return std::visit(
      [&](const auto& values) -> std::uint64_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::span<const std::int64_t>>) {
          return 0;
        } else {
          return count_in(values, false);
        }
      },
      array.values);
}

std::uint64_t count_non_finite(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> std::uint64_t {
        if constexpr (std::is_floating_point_v<std::decay_t<decltype(value)>>) {
          return is_non_finite(value) ? 1 : 0;
        } else {
          return 0;
        }
      },
      cell);
}

std::uint64_t count_non_finite(std::span<const float> values, bool hidden_is_minus_infinity) {
  return count_in(values, hidden_is_minus_infinity);
}

}  // namespace attnctl
