#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "results/results.hpp"
#include "study/head_numbers.hpp"
#include "study/measure.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::study {
namespace {

/// The tables that text leaves out, because a difference in them says little about a head.
constexpr std::array<std::string_view, 2> kNotInText = {"distributions", "distance"};
/// Text shows only the rows of these tables whose `count` in both studies is at least kFewestCases.
constexpr std::array<std::string_view, 2> kCountedTables = {"relations", "coreference"};

using Rows = std::vector<std::vector<Cell>>;

/// A row about a head of the same table of both studies.
struct JoinedRow {
  HeadRow of;
  std::array<std::vector<Cell>, 2> cells = {};  // of a and b; empty: the study does not have the row
};

/// Joins two tables with the same columns. Leaves out rows that are not about a head, such as baselines.
std::vector<JoinedRow> join(const std::array<const Table*, 2>& tables) {
  const std::vector<Column>& columns = tables[0]->columns;
  std::vector<JoinedRow> joined;
  std::map<std::pair<Cell, std::string>, std::size_t> places;  // in `joined`, by name and key
  std::vector<Cell> cells(columns.size());
  for (std::size_t study = 0; study < tables.size(); ++study) {
    for (std::size_t i = 0; i < tables[study]->rows; ++i) {
      tables[study]->row(i, cells);
      const std::optional<HeadRow> row = head_row(*tables[study], cells);
      if (!row) continue;
      const auto [place, added] = places.try_emplace({row->head[3], row->key}, joined.size());
      if (added) joined.push_back({*row});
      std::vector<Cell>& to = joined[place->second].cells.at(study);
      if (to.empty()) to = cells;
    }
  }
  return joined;
}

/// The differences of one column of a table.
struct ComparedColumn {
  std::string table;
  Column column;
  Rows rows = {};  // of the table `differences`
  bool fractions = false;
};

/// Returns the interval of b - a from the intervals of two independent estimates, `wider` times as wide (Zou
/// and Donner 2008): low = d - root((b - low_b)^2 + (high_a - a)^2), high = d + root((high_b - b)^2 + (a -
/// low_a)^2). The cells are those of the estimate, low and high. nullopt if a number is undefined.
std::optional<ConfidenceInterval> difference_interval(std::span<const Cell> a, std::span<const Cell> b,
                                                      double wider) {
  for (const std::span<const Cell> cells : {a, b})
    if (!std::ranges::all_of(cells, has_number)) return std::nullopt;
  const auto number = [](std::span<const Cell> cells, std::size_t i) { return number_of(cells[i]); };
  const double difference = number(b, 0) - number(a, 0);
  return ConfidenceInterval{
      difference - wider * std::hypot(number(b, 0) - number(b, 1), number(a, 2) - number(a, 0)),
      difference + wider * std::hypot(number(b, 2) - number(b, 0), number(a, 0) - number(a, 1))};
}

void add_differences(const Table& table, const std::vector<JoinedRow>& joined,
                     std::vector<ComparedColumn>& columns) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    ComparedColumn compared{table.name, table.columns[i]};
    const std::string& name = compared.column.name;
    if (is_one_of(kNotCompared, name) || is_one_of(kNumericKeys, name)) continue;
    for (const JoinedRow& row : joined) {
      const auto& [a, b] = row.cells;
      if (a.empty() || b.empty() || !(has_number(a[i]) || has_number(b[i]))) continue;
      const auto* const whole_a = std::get_if<std::int64_t>(&a[i]);
      const auto* const whole_b = std::get_if<std::int64_t>(&b[i]);
      const bool whole = whole_a != nullptr && whole_b != nullptr;
      const bool interval = has_interval(table.columns, i);
      const auto found = interval
                             ? difference_interval(std::span(a).subspan(i, 3), std::span(b).subspan(i, 3), 1)
                             : std::nullopt;
      compared.fractions |= std::holds_alternative<float>(a[i]) || std::holds_alternative<float>(b[i]);
      compared.rows.push_back(
          row_of(table.name, row.of.head, text_cell(row.of.key), name, a[i], b[i],
                 whole ? Cell(*whole_b - *whole_a) : real_cell(number_of(b[i]) - number_of(a[i])),
                 interval_cells(found), Cell()));
    }
    if (!compared.rows.empty()) columns.push_back(std::move(compared));
  }
}

/// Sets the column `clear` of the rows with an interval.
void set_clear(std::vector<ComparedColumn>& columns) {
  std::size_t tests = 0;
  for (const ComparedColumn& each : columns)
    tests += static_cast<std::size_t>(
        std::ranges::count_if(each.rows, [](const std::vector<Cell>& row) { return has_number(row[10]); }));
  if (tests == 0) return;
  constexpr auto many = std::uint64_t{1} << 40U;  // degrees of freedom: the normal distribution
  const double wider =
      student_quantile(0.025 / static_cast<double>(tests), many) / student_quantile(0.025, many);
  for (ComparedColumn& each : columns) {
    for (std::vector<Cell>& row : each.rows) {
      if (!has_number(row[10])) continue;
      const double difference = number_of(row[9]);
      const double toward_0 =
          difference > 0 ? difference - number_of(row[10]) : number_of(row[11]) - difference;
      row[12] = std::abs(difference) > wider * toward_0;
    }
  }
}

/// Returns a text table of the `request.top` heads with the largest differences that are not 0, for each
/// metric of the table `heads` and for the first column of fractions of each other table. A column such as
/// entropy_variance does not have the name of its definition. Leaves out kNotInText and rows of
/// kCountedTables with few cases. Without `top`, all columns together have about 36 rows.
TextTable largest_differences(const std::vector<ComparedColumn>& columns, const ComparisonRequest& request) {
  std::vector<const ComparedColumn*> shown;
  std::set<std::pair<Cell, Cell>> few;  // table and key of the rows with few cases
  for (const ComparedColumn& each : columns) {
    if (is_one_of(kNotInText, each.table) || (request.without_metrics && each.table == "heads")) continue;
    if (each.column.name == "count" && is_one_of(kCountedTables, each.table)) {
      for (const std::vector<Cell>& row : each.rows)
        if (std::min(number_of(row[7]), number_of(row[8])) < static_cast<double>(kFewestCases))
          few.emplace(row[0], row[5]);
    }
    const Definition* const about = each.column.definition;
    if (!each.fractions || about == nullptr || !about->name.ends_with(each.column.name)) continue;
    if (each.table == "heads" || shown.empty() || shown.back()->table != each.table) shown.push_back(&each);
  }
  const std::size_t most =
      request.top.value_or(std::clamp<std::size_t>(36 / std::max<std::size_t>(shown.size(), 1), 1, 5));
  bool all = true;
  Rows largest;
  for (const ComparedColumn* const each : shown) {
    const std::string table = each->table == "heads" ? "" : each->table + ".";
    const auto size = [](const std::vector<Cell>& row) { return std::abs(number_of(row[9])); };
    Rows rows = each->rows;
    std::erase_if(rows, [&](const std::vector<Cell>& row) {
      return !(size(row) > 0) || few.contains({row[0], row[5]});
    });
    std::ranges::stable_sort(rows, std::ranges::greater(), size);
    all = all && rows.size() <= most;
    rows.resize(std::min(rows.size(), most));
    for (const std::vector<Cell>& row : rows)
      largest.push_back(
          {table + each->column.name, row[5], row[4], row[7], row[8], row[9], row[10], row[11], row[12]});
  }
  std::vector<Column> names = {"column", "key", "head", "a", "b", "difference", "low", "high", "clear"};
  if (std::ranges::none_of(largest, [](const std::vector<Cell>& row) { return has_number(row[6]); })) {
    names.erase(names.begin() + 6, names.end());
    for (std::vector<Cell>& row : largest) row.resize(6);
  }
  return {"Largest differences (b - a)" + (all ? "" : fmt::format(", {} per column (--top N)", most)),
          make_table("largest", std::move(names), std::move(largest)), 4};
}

/// Returns the rows of the table `roles`: the roles that common heads have only in b, then only in a.
Rows role_changes(const Table& table, const std::vector<JoinedRow>& joined, const std::set<Cell>& common) {
  Rows changes;
  const std::size_t role = table.find("role").value();
  const std::size_t detail = table.find("detail").value();
  for (const std::size_t study : {std::size_t{1}, std::size_t{0}}) {
    for (const auto& [of, cells] : joined) {
      const auto& [head, key] = of;
      if (key.empty() || !cells.at(1 - study).empty() || !common.contains(head[3])) continue;
      std::vector<Cell> row =
          row_of(head, cells.at(study)[role], cells.at(study)[detail], study == 1 ? "gained" : "lost");
      for (const char* const column : {"score", "low", "high"})
        row.push_back(cells.at(study)[table.find(column).value()]);
      changes.push_back(std::move(row));
    }
  }
  return changes;
}

/// Returns the heads of each role that changed, from the rows of the table `roles`.
Table heads_by_change(const Rows& changes) {
  std::map<std::array<Cell, 3>, std::string> heads;  // by change, role and detail
  for (const std::vector<Cell>& row : changes) {
    std::string& names = heads[{row[6], row[4], row[5]}];
    names += (names.empty() ? "" : ", ") + std::get<std::string>(row[3]);
  }
  Rows rows;
  for (const auto& [key, names] : heads) rows.push_back({key[0], key[1], key[2], names});
  return make_table("roles", {"change", "role", "detail", "heads"}, std::move(rows));
}

/// Returns a picture of one column, with a scale for values of both signs.
HeatmapPage difference_page(const std::vector<ComparedColumn>& columns, const std::string& plot,
                            std::vector<std::string> subtitle) {
  Results results{.subtitle = std::move(subtitle)};
  for (const ComparedColumn& each : columns) {
    Rows rows;
    for (const std::vector<Cell>& row : each.rows) rows.push_back({row[1], row[2], row[5], row[3], row[9]});
    results.tables.push_back(
        make_table(each.table, {"component", "layer", "key", "head", each.column}, std::move(rows)));
  }
  HeatmapPage page = heads_page(results, plot);
  page.title = "Differences (b - a): " + page.scale.label;
  page.scale.label = "difference of " + page.scale.label;
  page.scale.diverging = true;
  page.fit_scale();
  return page;
}

/// Returns a field of a record in the head of the document, such as the path of the model.
Value head_field(const Results& study, std::string_view record, std::string_view field) {
  const auto find = [](const Record& in, std::string_view name) {
    const auto found = std::ranges::find(in.fields, name, &std::pair<std::string, Value>::first);
    return found == in.fields.end() ? Value() : found->second;
  };
  const Value named = find(study.document.head, record);
  return find(*std::get<std::shared_ptr<const Record>>(named.data), field);
}

/// Returns whether two models have the same family and shape.
bool like_models(const Results& a, const Results& b) {
  constexpr auto kFields =
      std::to_array<const char*>({"family", "layers", "heads", "kv_heads", "d_model", "d_head"});
  return std::ranges::all_of(kFields, [&](const char* field) {
    const auto cell = [&](const Results& study) {
      return std::get<Cell>(head_field(study, "model", field).data);
    };
    return cell(a) == cell(b);
  });
}

std::string plain_text(const Value& value) {
  return std::get<std::string>(std::get<Cell>(value.data));
}

}  // namespace

std::set<std::string> changed_roles(const Results& a, const Results& b) {
  std::set<std::string> names;
  const auto roles_of = [](const Results& study) {
    return std::ranges::find(study.tables, "roles", &Table::name);
  };
  const auto of_a = roles_of(a), of_b = roles_of(b);
  if (of_a == a.tables.end() || of_b == b.tables.end()) return names;
  for (const JoinedRow& row : join({&*of_a, &*of_b}))
    if (!row.of.key.empty() && (row.cells[0].empty() || row.cells[1].empty()))
      names.insert(std::get<std::string>(row.of.head[3]));
  return names;
}

Results compare_studies(const Results& a, const Results& b, const ComparisonRequest& request,
                        Warnings& warnings) {
  std::vector<ComparedColumn> columns;
  std::set<Cell> common;                  // names of the heads in both studies
  std::array<std::size_t, 2> alone = {};  // number of heads only in a, and only in b
  std::optional<Rows> changes;            // of roles
  for (const Table& table : a.tables) {
    const auto other = std::ranges::find(b.tables, table.name, &Table::name);
    if (other == b.tables.end() || other->columns != table.columns || !table.find("name")) continue;
    const std::vector<JoinedRow> joined = join({&table, &*other});
    if (table.name == "heads") {  // the first table, with a row for each head
      for (const auto& [of, cells] : joined) {
        if (cells[0].empty() || cells[1].empty())
          ++alone.at(cells[0].empty() ? 1 : 0);
        else
          common.insert(of.head[3]);
      }
    }
    add_differences(table, joined, columns);
    if (table.name == "roles") changes = role_changes(table, joined, common);
  }
  if (common.empty())
    fail(Status::bad_input, "compare: no head is in both studies; select the same heads for both");
  if (columns.empty())
    fail(Status::bad_input,
         "compare: these measures have no numbers of single heads; use other --measures, such as metrics");
  if (alone != std::array<std::size_t, 2>{})
    warnings.add("heads_left_out", fmt::format("left out heads that are in only one study: {} of a, {} of b",
                                               alone[0], alone[1]));

  Results results;
  Record models;
  for (const auto& [name, study] : {std::pair("a", &a), std::pair("b", &b)}) {
    const Value path = head_field(*study, "model", "path");
    models.set(name, Record().set("path", path).set("family", head_field(*study, "model", "family")));
    results.subtitle.push_back(fmt::format("{}: {}", name, plain_text(path)));
  }
  const Value files = head_field(a, "corpus", "files");
  results.document.head.set("models", std::move(models));
  results.text = {TextLine{fmt::format("{}", fmt::join(results.subtitle, ", ")),
                           fmt::format(" ({}, corpus: {})", counted(common.size(), "common head"),
                                       join_texts(std::get<List>(files.data), plain_text))}};
  const auto say = [&results](std::string line) { results.text.emplace_back(TextLine{"", std::move(line)}); };
  if (!like_models(a, b))
    say("The models have different architectures: heads with the same number need not correspond.");
  if (!request.plot.empty())
    results.pictures.push_back({"differences", difference_page(columns, request.plot, results.subtitle)});
  set_clear(columns);
  TextTable largest = largest_differences(columns, request);
  std::stable_partition(columns.begin(), columns.end(),  // counts are last
                        [](const ComparedColumn& each) { return each.fractions; });
  Rows all;
  for (ComparedColumn& each : columns) std::ranges::move(each.rows, std::back_inserter(all));
  add_table(results, "difference", "differences",
            {"table", "component", "layer", "head", "name", "key", "column", "a", "b", "difference", "low",
             "high", "clear"},
            std::move(all));
  if (changes) {
    const Table text = heads_by_change(*changes);
    const Table shown = select_rows(text, "", request.top.value_or(10));
    if (text.rows > 0)
      results.text.emplace_back(TextTable{"Roles gained (only in b) and lost (only in a)", shown});
    else
      say("No head gained or lost a role.");
    if (text.rows > shown.rows) say(counted(text.rows - shown.rows, "more role") + ": --top all");
    add_table(results, "role", "roles",
              {"component", "layer", "head", "name", "role", "detail", "change", "score", "low", "high"},
              std::move(*changes));
  }
  if (largest.table.rows == 0) {
    if (!request.without_metrics)
      say("No number of a head that text shows differs. JSON and CSV have all numbers.");
    return results;
  }
  results.text.emplace_back(std::move(largest));
  results.text.emplace_back(TextLine{});
  say("Differences without an interval may be chance; attnctl explain clear says how intervals are "
      "corrected.");
  return results;
}

}  // namespace attnctl::study
