#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "results/results.hpp"

namespace attnctl::study {

/// The columns of the tables of `attnctl compare`.
inline constexpr auto kComparisonDefinitions = std::to_array<Definition>({
    {"differences.table", "", "", "", "the table of both studies that has the number"},
    {"differences.key", "", "", "",
     "the other cells that identify the row in this table, such as nsubj to_head or offset -1"},
    {"differences.column", "", "", "", "the column of this table"},
    {"differences.a", "", "", "", "the number in the first study"},
    {"differences.b", "", "", "", "the number in the second study"},
    {"difference", "", "", "0", "b - a"},
    {"change", "", "gained or lost", "",
     "gained: the head has the role only in the second study; lost: only in the first study"},
});

struct ComparisonRequest {
  /// Largest number of heads per column, and of changed roles, in text; nullopt: about 40 lines of text.
  std::optional<std::size_t> top = {};
  std::string plot = {};  // COLUMN or TABLE.COLUMN to draw; empty: no picture
};

/// Joins the results of two studies: the table `differences`, with each number of a head in each of their
/// tables, and, if both have the table `roles`, a table `roles` of the roles that heads gained or lost. Heads
/// in only one study are left out, with a warning. Throws Error(bad_input) if no number is in both studies.
[[nodiscard]] Results compare_studies(const Results& a, const Results& b, const ComparisonRequest& request,
                                      Warnings& warnings);

}  // namespace attnctl::study
