#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/results.hpp"

// The rows of the tables of a study that are about single heads.
namespace attnctl::study {

[[nodiscard]] bool is_one_of(std::span<const std::string_view> names, std::string_view name);
[[nodiscard]] bool has_number(const Cell& cell);

/// The columns that identify a row by a number.
inline constexpr std::array<std::string_view, 4> kNumericKeys = {"offset", "position", "first", "last"};
/// The columns that are neither compared nor part of the key.
inline constexpr std::array<std::string_view, 7> kNotCompared = {"component", "layer", "head", "kv_head",
                                                                 "model",     "name",  "rule"};

/// What identifies a row of a table: the cells component, layer, head and name, and a key of its other texts
/// and of kNumericKeys, such as "nsubj to_head", "offset -1" or "distance 2-3".
struct HeadRow {
  std::vector<Cell> head;
  std::string key;
};
/// Returns nullopt for a row that is not about a head, such as a baseline. The table must have the columns of
/// a head.
[[nodiscard]] std::optional<HeadRow> head_row(const Table& table, std::span<const Cell> cells);

/// Returns whether the column after column `i` and the next one are the ends of its interval.
[[nodiscard]] bool has_interval(std::span<const Column> columns, std::size_t i);

}  // namespace attnctl::study
