#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "study/state/ratio_sums.hpp"

namespace attnctl {

/// What a measure found that speaks for a role of a head, or against it: the rules of roles.hpp decide. Any
/// measure may give some; a role that no measure gives evidence for is not told.
struct RoleEvidence {
  std::size_t head = 0;         // in StudyShape::heads
  std::string_view role;        // RoleRow::name
  std::string detail;           // "-1", "[SEP]", "nsubj to_head"; may be empty
  std::optional<double> score;  // evidence without one is none
  std::optional<double> null;   // what the score is where nothing was learned
  std::optional<ConfidenceInterval> interval;
  std::uint64_t count = 0;  // rows, or pairs of words
  /// What the best head of random models of the same shape would score here: this null, and by how much that
  /// head's score is above its own. nullopt: none was asked for.
  std::optional<double> random = {};
  /// What the same head scores where the tokens of every sentence are in random order, and the places that
  /// are looked for stay. nullopt: that was not asked for, or is no null of this role.
  std::optional<double> shuffled = {};
};

}  // namespace attnctl
