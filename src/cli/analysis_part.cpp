#include "cli/analysis_part.hpp"

#include <array>

namespace attnctl::cli {
namespace {

constexpr std::array kParts = {
    PartRow{
        .include = "subspaces", .of_inputs = false, .by_word = true, .tables = true, .make = make_subspaces},
    PartRow{.include = "composition",
            .of_inputs = false,
            .by_word = true,
            .tables = true,
            .make = make_composition},
    PartRow{.include = "map", .of_inputs = false, .by_word = true, .tables = true, .make = make_map},
    PartRow{.include = "rollout", .of_inputs = true, .by_word = true, .tables = false, .make = make_rollout},
};

}  // namespace

std::span<const PartRow> part_rows() {
  return kParts;
}

}  // namespace attnctl::cli
