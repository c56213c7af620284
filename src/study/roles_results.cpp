#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/undefined.hpp"
#include "study/roles.hpp"

// Output of the roles: document, CSV, grid and text.
namespace attnctl {
namespace {

constexpr std::size_t kShown = 5;  // number of heads shown per role

Cell text_or_nothing(std::string_view text) {
  return text.empty() ? Cell() : Cell(std::string(text));
}

Value interval_value(const std::optional<ConfidenceInterval>& interval) {
  if (!interval) return {};
  return List{Value(real_cell(interval->low)), Value(real_cell(interval->high))};
}

/// Returns the rule that the evidence met, including the conditions for shuffled tokens and random models.
std::string rule_of(const Role& role) {
  std::string rule = attnctl::rule_of(*role.row);
  if (role.row->above_null && role.evidence.shuffled) rule += "; interval above shuffled";
  if (role.row->above_null && role.evidence.random) rule += "; score above random";
  return rule;
}

/// Returns the roles of each head, [heads]; empty for a head without roles.
std::vector<std::vector<const Role*>> by_head(const std::vector<Role>& roles, std::size_t heads) {
  std::vector<std::vector<const Role*>> sorted(heads);
  for (const Role& role : roles) sorted.at(role.evidence.head).push_back(&role);
  return sorted;
}

Section roles_section(const std::vector<Role>& roles, const StudyShape& shape,
                      const std::string& looked_for) {
  List items;
  const auto sorted = by_head(roles, shape.heads.size());
  for (std::size_t h = 0; h < sorted.size(); ++h) {
    if (sorted[h].empty()) {
      Record none;
      none.set("head", shape.heads[h].name);
      for (const char* const name :
           {"role", "detail", "score", "null", "shuffled", "random", "interval", "count"})
        none.set(name, Value());
      none.set("rule", looked_for);
      items.emplace_back(std::move(none));
    }
    for (const Role* const role : sorted[h]) {
      const RoleEvidence& evidence = role->evidence;
      Record record;
      record.set("head", shape.heads[h].name)
          .set("role", std::string(role->row->name))
          .set("detail", text_or_nothing(evidence.detail))
          .set("score", real_cell(evidence.score))
          .set("null", real_cell(evidence.null))
          .set("shuffled", real_cell(evidence.shuffled))
          .set("random", real_cell(evidence.random))
          .set("interval", interval_value(evidence.interval))
          .set("count", evidence.count)
          .set("rule", rule_of(*role));
      items.emplace_back(std::move(record));
    }
  }
  return {"roles", "role", std::move(items)};
}

/// Returns the cells of a role, without its name.
std::vector<Cell> evidence_cells(const Role& role) {
  const RoleEvidence& evidence = role.evidence;
  const auto& interval = evidence.interval;
  return {text_or_nothing(evidence.detail),
          real_cell(evidence.score),
          real_cell(evidence.null),
          real_cell(evidence.shuffled),
          real_cell(evidence.random),
          interval ? real_cell(interval->low) : Cell(),
          interval ? real_cell(interval->high) : Cell(),
          count_cell(evidence.count)};
}

Table roles_table(const std::vector<Role>& roles, const StudyShape& shape, const std::string& looked_for) {
  std::vector<std::string> columns = StudyShape::head_columns();
  columns.insert(columns.end(),
                 {"role", "detail", "score", "null", "shuffled", "random", "low", "high", "count", "rule"});
  std::vector<std::vector<Cell>> rows;
  const auto sorted = by_head(roles, shape.heads.size());
  for (std::size_t h = 0; h < sorted.size(); ++h) {
    if (sorted[h].empty()) {
      rows.push_back(shape.head_cells(h));
      rows.back().resize(columns.size());
      rows.back().back() = looked_for;
    }
    for (const Role* const role : sorted[h]) {
      std::vector<Cell>& row = rows.emplace_back(shape.head_cells(h));
      row.emplace_back(std::string(role->row->name));
      const std::vector<Cell> cells = evidence_cells(*role);
      row.insert(row.end(), cells.begin(), cells.end());
      row.emplace_back(rule_of(*role));
    }
  }
  return make_table("roles", std::move(columns), std::move(rows));
}

/// Returns the heads with the largest scores of each role.
Table strongest(const std::vector<Role>& roles, const StudyShape& shape) {
  std::vector<std::vector<Cell>> rows;
  for (const RoleRow& row : role_rows()) {
    std::vector<const Role*> heads;
    for (const Role& role : roles) {
      if (role.row == &row) heads.push_back(&role);
    }
    std::ranges::stable_sort(heads, std::greater(),
                             [](const Role* role) { return role->evidence.score.value_or(0); });
    heads.resize(std::min(heads.size(), kShown));
    for (const Role* const role : heads) {
      std::vector<Cell>& cells = rows.emplace_back();
      cells.emplace_back(std::string(1, row.letter));
      cells.emplace_back(std::string(row.name));
      cells.emplace_back(shape.heads[role->evidence.head].name);
      const std::vector<Cell> rest = evidence_cells(*role);
      cells.insert(cells.end(), rest.begin(), rest.end());
    }
  }
  return make_table(
      "strongest",
      {"", "role", "head", "detail", "score", "null", "shuffled", "random", "low", "high", "count"},
      std::move(rows));
}

/// Returns the roles that have evidence, as text: "none of induction, sink".
std::string none_of(const std::vector<RoleEvidence>& evidence) {
  std::string text;
  for (const RoleRow& row : role_rows()) {
    if (std::ranges::any_of(evidence, [&row](const RoleEvidence& each) { return each.role == row.name; }))
      text += (text.empty() ? "none of " : ", ") + std::string(row.name);
  }
  return text;
}

/// Returns the letters of a head's roles, without repetitions.
std::string letters_of(const std::vector<const Role*>& roles) {
  std::string letters;
  for (const Role* const role : roles) {
    if (letters.empty() || letters.back() != role->row->letter) letters += role->row->letter;
  }
  return letters.empty() ? "." : letters;
}

/// Returns a heatmap [layers, heads] of the score of each head's first role. `texts` gets the letters of the
/// roles.
Heatmap make_grid(const std::vector<Role>& roles, const StudyShape& shape, std::vector<std::string>& texts) {
  Heatmap grid{.title = "Roles of heads",
               .x_axis = "head",
               .y_axis = "layer",
               .x_labels = {},
               .y_labels = {},
               .values = {}};
  std::set<std::size_t> numbers;
  for (const StudyHead& head : shape.heads) numbers.insert(head.id.head);
  for (const std::size_t number : numbers) grid.x_labels.push_back(std::to_string(number));
  std::vector<double> scores;
  const auto sorted = by_head(roles, shape.heads.size());
  for (std::size_t h = 0; h < shape.heads.size(); ++h) {
    const StudyHead& head = shape.heads[h];
    if (h == 0 || head.id.layer != shape.heads[h - 1].id.layer) {
      grid.y_labels.push_back(head.name.substr(0, head.name.rfind('.')));
      scores.resize(scores.size() + numbers.size(), kUndefined);
      texts.resize(scores.size());
    }
    const auto column = std::distance(numbers.begin(), numbers.find(head.id.head));
    const std::size_t cell = scores.size() - numbers.size() + static_cast<std::size_t>(column);
    texts[cell] = letters_of(sorted[h]);
    if (!sorted[h].empty()) scores[cell] = sorted[h].front()->evidence.score.value_or(0);
  }
  grid.values = make_array({grid.y_labels.size(), numbers.size()}, std::move(scores));
  return grid;
}

/// Returns the legend of the roles that occur: "I induction, P positional".
std::string legend_of(const std::vector<Role>& roles) {
  std::string text;
  for (const RoleRow& row : role_rows()) {
    if (std::ranges::any_of(roles, [&row](const Role& role) { return role.row == &row; }))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.letter, row.name);
  }
  return text.empty() ? "no head has one" : text;
}

}  // namespace

void add_roles(StudyResults& results, const StudyShape& shape) {
  if (!results.tell_roles) return;
  set_random(results.evidence, results.null_evidence);
  const std::vector<Role> roles = decide_roles(results.evidence);
  const std::string looked_for = none_of(results.evidence);
  results.document.sections.push_back(roles_section(roles, shape, looked_for));
  results.tables.push_back(roles_table(roles, shape, looked_for));
  std::vector<std::string> letters;
  for (const auto& of_head : by_head(roles, shape.heads.size())) letters.push_back(letters_of(of_head));
  HeatmapPage page{.title = "",
                   .scale = {.diverging = false, .low = 0, .high = 1, .label = "Score of the first role"},
                   .columns = 1,
                   .heatmaps = {}};
  Heatmap grid = make_grid(roles, shape, page.cell_texts);
  const std::string legend = legend_of(roles);
  std::vector<PageBlock> text = {shape.grid("Roles (" + legend + ")", {letters.begin(), letters.end()})};
  if (!roles.empty()) text.emplace_back(TextTable{"Strongest heads by role", strongest(roles, shape)});
  results.text.insert(results.text.begin(), text.begin(), text.end());
  grid.title += ": " + legend;
  page.title = grid.title;
  page.heatmaps.push_back(std::move(grid));
  results.pictures.push_back({"roles", std::move(page)});
}

}  // namespace attnctl
