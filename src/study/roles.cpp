#include "study/roles.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace attnctl {
namespace {

constexpr std::array kRows = {
    RoleRow{
        .name = "induction",
        .letter = 'I',
        .measure = "probe",
        .score =
            "a random sequence, repeated once: mean weight of the second copy on the token after the first "
            "occurrence of the query's token",
        .null = "the same with other tokens in the first copy",
        .least = 0.3,
        .beside = "",
        .source = "Olsson et al. 2022"},
    RoleRow{
        .name = "duplicate-token",
        .letter = 'D',
        .measure = "probe",
        .score =
            "a random sequence, repeated once: mean weight of the second copy on the first occurrence of the "
            "query's token",
        .null = "the same with other tokens in the first copy",
        .least = 0.3,
        .beside = "",
        .source = "Wang et al. 2022"},
    RoleRow{
        .name = "syntactic",
        .letter = 'Y',
        .measure = "syntax",
        .score =
            "share of a relation's words whose largest weight is on the word at its other end, in the half "
            "of the corpus on which the head was not chosen",
        .null = "best fixed offset of the relation",
        .margin = 0.1,
        .beside = "",
        .source = "Clark et al. 2019, section 4.2; Voita et al. 2019, section 5.2"},
    RoleRow{.name = "coreferent",
            .letter = 'C',
            .measure = "coreference",
            .score = "share of mentions whose largest weight, among earlier mentions, is on their antecedent",
            .null = "best of nearest mention, same words, and random mention",
            .margin = 0.1,
            .beside = "",
            .source = "Clark et al. 2019, section 4.3"},
    RoleRow{.name = "rare-token",
            .letter = 'R',
            .measure = "rare",
            .score = "mean weight on the rarest token of the sentence",
            .null = "uniform attention",
            .least = 0.5,
            .margin = 0.1,
            .beside = "",
            .source = "Voita et al. 2019, section 5.3"},
    RoleRow{.name = "positional",
            .letter = 'P',
            .measure = "roles",
            .score = "share of rows whose largest weight is at the offset, of the rows with a key there",
            .null = "largest weight on a random visible key",
            .least = 0.9,
            .beside = "",
            .source = "Voita et al. 2019, section 5.1"},
    RoleRow{.name = "separator",
            .letter = 'E',
            .measure = "roles",
            .score = "mean weight on a special token that is not at position 0",
            .null = "uniform attention",
            .least = 0.5,
            .beside = "",
            .source = "Clark et al. 2019, section 3.2"},
    RoleRow{.name = "sink",
            .letter = 'S',
            .measure = "roles",
            .score = "mean weight of the other queries on position 0",
            .null = "uniform attention",
            .least = 0.5,
            .beside = "",
            .source = "Xiao et al. 2023"},
    RoleRow{.name = "local",
            .letter = 'L',
            .measure = "roles",
            .score = "mean weight on keys at most 2 tokens away, over rows that may also attend to others",
            .null = "uniform attention",
            .least = 0.5,
            .margin = 0.1,
            .beside = "positional",
            .source = "Clark et al. 2019, section 3.1; Raganato and Tiedemann 2018"},
    RoleRow{.name = "broad",
            .letter = 'B',
            .measure = "roles",
            .score = "mean of entropy / ln(visible keys)",
            .null = "1, the value of uniform attention",
            .least = 0.9,
            .above_null = false,
            .beside = "",
            .source = "Clark et al. 2019, section 3.3"},
};

constexpr double kRounding = 1e-6;  // rounding of float32 weights; ignores smaller differences

const RoleRow& row_of(std::string_view role) {
  const auto* const row = std::ranges::find(kRows, role, &RoleRow::name);
  if (row == kRows.end()) throw std::logic_error("evidence of a role that has no rule");
  return *row;
}

}  // namespace

std::span<const RoleRow> role_rows() {
  return kRows;
}

std::string rule_of(const RoleRow& row) {
  std::string rule;
  const auto add = [&rule](const std::string& part) { rule += (rule.empty() ? "" : "; ") + part; };
  if (row.least > 0) add(fmt::format("score >= {}", row.least));
  if (row.margin > 0) add(fmt::format("score >= null + {}", row.margin));
  if (row.above_null) add("interval above the null");
  if (!row.beside.empty()) add(fmt::format("not {}", row.beside));
  return rule;
}

bool meets(const RoleRow& row, const RoleEvidence& evidence) {
  if (!evidence.score || !evidence.null || !evidence.interval) return false;
  if (*evidence.score < row.least) return false;
  if (row.margin > 0 && *evidence.score < *evidence.null + row.margin) return false;
  if (row.above_null && evidence.random && *evidence.score <= *evidence.random) return false;
  if (row.above_null && evidence.shuffled && evidence.interval->low <= *evidence.shuffled + kRounding)
    return false;
  return !row.above_null || evidence.interval->low > *evidence.null + kRounding;
}

void set_random(std::vector<RoleEvidence>& evidence, const std::vector<RoleEvidence>& of_random) {
  std::map<std::string_view, double> most;  // largest score minus null, by role
  for (const RoleEvidence& each : of_random) {
    if (!each.score || !each.null) continue;
    const double above = *each.score - *each.null;
    const auto [place, fresh] = most.try_emplace(each.role, above);
    if (!fresh) place->second = std::max(place->second, above);
  }
  for (RoleEvidence& each : evidence) {
    const auto found = most.find(each.role);
    if (found != most.end() && each.null) each.random = *each.null + found->second;
  }
}

std::vector<Role> decide_roles(const std::vector<RoleEvidence>& evidence) {
  std::vector<Role> roles;
  for (const RoleEvidence& each : evidence) {
    const RoleRow& row = row_of(each.role);
    if (meets(row, each)) roles.push_back({&row, each});
  }
  std::ranges::stable_sort(roles, {},
                           [](const Role& role) { return std::pair(role.evidence.head, role.row); });
  const std::vector<Role> all = roles;
  std::erase_if(roles, [&all](const Role& role) {
    return std::ranges::any_of(all, [&role](const Role& other) {
      return other.evidence.head == role.evidence.head && other.row->name == role.row->beside;
    });
  });
  return roles;
}

}  // namespace attnctl
