#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "study/measure.hpp"
#include "study/results.hpp"
#include "study/role_evidence.hpp"

namespace attnctl {

/// What makes a role: a rule over the evidence that a measure gives. docs/roles.md has the same rows.
struct RoleRow {
  std::string_view name;
  char letter;               // in the grid
  std::string_view measure;  // that gives evidence
  std::string_view score;    // what it is
  std::string_view null;     // what it is compared with
  double least = 0;          // the score is at least this,
  double margin = 0;         // so much above the null,
  bool above_null = true;    // and its interval above the null
  std::string_view beside;   // not told beside this role, which says more; empty: none
  std::string_view source;
};

/// Roles from the most particular to the least: in a cell of the grid their letters stand in this order.
[[nodiscard]] std::span<const RoleRow> role_rows();
/// "score >= 0.9; interval above the null", as results name it.
[[nodiscard]] std::string rule_of(const RoleRow& row);
/// Whether this evidence makes the role, apart from other roles of the head. Without an interval it does not.
[[nodiscard]] bool meets(const RoleRow& row, const RoleEvidence& evidence);

/// A role of a head, with what speaks for it.
struct Role {
  const RoleRow* row = nullptr;
  RoleEvidence evidence;
};

/// Sets RoleEvidence::random by the evidence that random models gave, role by role.
void set_random(std::vector<RoleEvidence>& evidence, const std::vector<RoleEvidence>& of_random);

/// By head, then in the order of role_rows(), then of the evidence. Throws std::logic_error for evidence of a
/// role that has no row.
[[nodiscard]] std::vector<Role> decide_roles(const std::vector<RoleEvidence>& evidence);

/// Adds the section and the table of roles, and to the page their grid and the strongest heads, where there
/// is evidence at all. A head that no rule gives a role has a row that says so.
void add_roles(StudyResults& results, const StudyShape& shape);

}  // namespace attnctl
