#include "cli/analysis_part.hpp"

#include <array>

namespace attnctl::cli {
namespace {

constexpr std::array kParts = {
    PartRow{.include = "rollout", .of_inputs = true, .by_word = true, .tables = false, .make = make_rollout},
};

}  // namespace

std::span<const PartRow> part_rows() {
  return kParts;
}

}  // namespace attnctl::cli
