#include "inspect/catalogue.hpp"

#include <array>

#include "base/error.hpp"

namespace attnctl::cli {
namespace {

constexpr std::array kParts = {
    PartRow{.include = "subspaces",
            .of_inputs = false,
            .by_word = true,
            .tables = true,
            .stacks = Stacks::each,
            .make = make_subspaces},
    PartRow{.include = "composition",
            .of_inputs = false,
            .by_word = true,
            .tables = true,
            .stacks = Stacks::not_cross,
            .make = make_composition},
    PartRow{.include = "map",
            .of_inputs = false,
            .by_word = true,
            .tables = true,
            .stacks = Stacks::each,
            .make = make_map},
    PartRow{.include = "rollout", .of_inputs = true, .by_word = true, .tables = false, .make = make_rollout},
    PartRow{.include = "flow", .of_inputs = true, .by_word = false, .tables = false, .make = make_flow},
    PartRow{.include = "contributions",
            .of_inputs = true,
            .by_word = false,
            .tables = true,
            .stacks = Stacks::each,
            .make = make_contributions},
    PartRow{.include = "mixing", .of_inputs = true, .by_word = false, .tables = true, .make = make_mixing},
    PartRow{.include = "routing", .of_inputs = true, .by_word = false, .tables = true, .make = make_routing},
};

}  // namespace

void require_values(const PartInput& input, std::string_view analysis) {
  for (const HeadId head : input.selection.heads) {
    if (input.open.model.config().layers[head.layer].attention.value.weight) continue;
    fail(Status::bad_input,
         "{}: layer {} has no values (W_v), so there is nothing to give {}; leave it out of --include",
         escaped(input.open.model.name()), head.layer, analysis);
  }
}

std::span<const PartRow> part_rows() {
  return kParts;
}

}  // namespace attnctl::cli
