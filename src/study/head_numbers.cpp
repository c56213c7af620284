#include "study/head_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attnctl::study {
namespace {

/// The columns of an interval. They follow the column of the estimate, in this order.
constexpr std::array<std::array<std::string_view, 2>, 2> kIntervals = {
    {{"low", "high"}, {"interval_low", "interval_high"}}};

}  // namespace

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool has_number(const Cell& cell) {
  return !std::holds_alternative<bool>(cell) && !std::isnan(number_of(cell));
}

std::optional<HeadRow> head_row(const Table& table, std::span<const Cell> cells) {
  HeadRow row;
  for (const char* const column : {"component", "layer", "head", "name"})
    row.head.push_back(cells[table.find(column).value()]);
  if (row.head[3] == Cell()) return std::nullopt;
  std::vector<std::string> keys;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string& name = table.columns[c].name;
    const auto* const text = std::get_if<std::string>(&cells[c]);
    const auto* const number = std::get_if<std::int64_t>(&cells[c]);
    if (text != nullptr && !is_one_of(kNotCompared, name)) keys.push_back(*text);
    if (number == nullptr || !is_one_of(kNumericKeys, name)) continue;
    if (name != "last")
      keys.push_back(fmt::format("{} {}", name == "first" ? "distance" : name, *number));
    else if (cells[c] != cells[c - 1])  // the column `first`
      keys.back() += fmt::format("-{}", *number);
  }
  row.key = fmt::format("{}", fmt::join(keys, " "));
  return row;
}

bool has_interval(std::span<const Column> columns, std::size_t i) {
  return i + 2 < columns.size() && std::ranges::any_of(kIntervals, [&](const auto& names) {
           return columns[i + 1].name == names[0] && columns[i + 2].name == names[1];
         });
}

}  // namespace attnctl::study
