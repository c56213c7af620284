#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "study/state/ratio_sums.hpp"

namespace attnctl {

/// Evidence for or against a role of a head. Any measure may give evidence; the rules of roles.hpp decide. A
/// role without evidence is not reported.
struct RoleEvidence {
  std::size_t head = 0;         // index into StudyShape::heads
  std::string_view role;        // RoleRow::name
  std::string detail;           // "-1", "[SEP]", "nsubj to_head"; may be empty
  std::optional<double> score;  // nullopt: there is no evidence
  std::optional<double> null;   // expected score of a head that learned nothing
  std::optional<ConfidenceInterval> interval;
  std::uint64_t count = 0;  // number of rows, or of pairs of words
  /// Score of the best head of random models with the same shape: the null of this evidence plus the largest
  /// difference between score and null over the heads of those models. nullopt if there are no random models.
  std::optional<double> random = {};
  /// Score of the same head on sentences whose tokens are in random order; the positions that are scored stay
  /// the same. nullopt if there are no shuffles, or if shuffling gives no null for this role.
  std::optional<double> shuffled = {};
};

}  // namespace attnctl
