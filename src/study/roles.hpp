#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "study/measure.hpp"

namespace attnctl::study {

/// The rule that decides from the evidence of a measure whether a head has a role. docs/roles.md has the same
/// rows.
struct RoleRow {
  std::string_view name;
  char letter;  // letter in the grid
  /// Metric::name of the score; this Metric defines the score, its null and its source.
  std::string_view metric;
  double least = 0;        // smallest score
  double margin = 0;       // smallest difference between score and null
  bool above_null = true;  // the score must be above all nulls: see meets()
  /// A head with this more specific role does not get the role of this row; empty: none.
  std::string_view unless = "";
};

/// Returns the rules, from the most specific role to the least. The role letters in a cell of the grid have
/// the same order.
[[nodiscard]] std::span<const RoleRow> role_rows();
/// Returns the rule as text, for example "score >= 0.9; interval above the null".
[[nodiscard]] std::string rule_of(const RoleRow& row);
/// Checks whether the evidence meets the rule of a role. If RoleRow::above_null is true, the whole interval
/// must be above the null and above RoleEvidence::shuffled, and the score above RoleEvidence::random, if
/// these are set. Ignores RoleRow::unless. Returns false for evidence without a score, a null or an interval.
[[nodiscard]] bool meets(const RoleRow& row, const RoleEvidence& evidence);

/// A role of a head, with its evidence.
struct HeadRole {
  const RoleRow* row = nullptr;
  RoleEvidence evidence;
};

/// Sets RoleEvidence::random of each item in `evidence` that has a null and whose role has a score in
/// `of_random`, the evidence from the random models.
void set_random(std::vector<RoleEvidence>& evidence, const std::vector<RoleEvidence>& of_random);

/// Returns the roles whose rules the evidence meets, without those that RoleRow::unless excludes, sorted by
/// head, then in the order of role_rows(), then in the order of the evidence. Throws std::logic_error if the
/// evidence is for an unknown role.
[[nodiscard]] std::vector<HeadRole> decide_roles(const std::vector<RoleEvidence>& evidence);

/// Adds the section and the table of roles, the grid of role letters, and the table of the strongest heads of
/// each role. A head without a role has one row with an empty role.
void add_roles(StudyResults& results, const StudyShape& shape);

}  // namespace attnctl::study
