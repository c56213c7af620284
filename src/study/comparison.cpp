#include "study/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/ranges.h>

#include "study/measure.hpp"

namespace attnctl::study {
namespace {

/// The columns that identify a row by a number.
constexpr std::array<std::string_view, 4> kNumericKeys = {"offset", "position", "first", "last"};
/// The columns that are neither compared nor part of the key.
constexpr std::array<std::string_view, 7> kNotCompared = {"component", "layer", "head", "kv_head",
                                                          "model",     "name",  "rule"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}
bool has_number(const Cell& cell) {
  return !std::holds_alternative<bool>(cell) && !std::isnan(number_of(cell));
}

/// A row of a table about heads. The name of the head and the key identify it.
struct HeadRow {
  std::string name;         // "0.10", "enc.0.10"
  std::string key;          // the other texts, and the numbers of kNumericKeys: "nsubj to_head", "offset -1"
  std::vector<Cell> cells;  // [columns of the table]
};

/// The rows of a table, without those that are not about a head, such as baselines.
struct HeadRows {
  const Table& table;
  std::size_t component, layer, head;  // columns
  std::vector<HeadRow> rows;
  std::map<std::pair<std::string, std::string>, std::size_t> places;  // index of each row
  std::set<std::string> heads;                                        // names

  explicit HeadRows(const Table& of)
      : table(of),
        component(of.find("component").value()),
        layer(of.find("layer").value()),
        head(of.find("head").value()) {
    std::vector<Cell> cells(table.columns.size());
    for (std::size_t i = 0; i < table.rows; ++i) {
      table.row(i, cells);
      if (!has_number(cells[layer]) || !has_number(cells[head])) continue;
      std::vector<std::string> keys;
      for (std::size_t c = 0; c < cells.size(); ++c) {
        const std::string& column = table.columns[c];
        const auto* const text = std::get_if<std::string>(&cells[c]);
        if (text != nullptr && !is_one_of(kNotCompared, column)) keys.push_back(*text);
        if (is_one_of(kNumericKeys, column) && has_number(cells[c]))
          keys.push_back(fmt::format("{} {}", column, std::get<std::int64_t>(cells[c])));
      }
      const auto* const part = std::get_if<std::string>(&cells[component]);
      HeadRow row{fmt::format("{}{}{}.{}", part == nullptr ? "" : *part, part == nullptr ? "" : ".",
                              std::get<std::int64_t>(cells[layer]), std::get<std::int64_t>(cells[head])),
                  fmt::format("{}", fmt::join(keys, " ")), cells};
      heads.insert(row.name);
      if (places.try_emplace({row.name, row.key}, rows.size()).second) rows.push_back(std::move(row));
    }
  }
  [[nodiscard]] const HeadRow* find(const HeadRow& other) const {
    const auto place = places.find({other.name, other.key});
    return place == places.end() ? nullptr : &rows[place->second];
  }
};

/// The differences of one column of a table: a range of Differences::rows.
struct ComparedColumn {
  std::string table;
  Column column;
  std::size_t begin = 0, end = 0;
  bool fractions = false;

  /// Returns whether text has this column: the metrics of the table heads, and the first column of fractions
  /// of each other table. A column such as entropy_variance does not have the name of its definition.
  [[nodiscard]] bool is_main(const ComparedColumn* shown) const {
    const Definition* const about = column.definition;
    const bool own =
        about != nullptr && (about->name == column.name || about->name == table + "." + column.name);
    return fractions && own && (table == "heads" || shown == nullptr || shown->table != table);
  }
};

struct Differences {
  std::vector<ComparedColumn> columns;
  std::vector<std::vector<Cell>> rows;

  void add(const HeadRows& a, const HeadRows& b) {
    for (std::size_t i = 0; i < a.table.columns.size(); ++i) {
      ComparedColumn compared{a.table.name, a.table.columns[i], rows.size()};
      const std::string& name = compared.column.name;
      if (is_one_of(kNotCompared, name) || is_one_of(kNumericKeys, name)) continue;
      for (const HeadRow& row : a.rows) {
        const HeadRow* const other = b.find(row);
        if (other == nullptr || !(has_number(row.cells[i]) || has_number(other->cells[i]))) continue;
        const Cell &first = row.cells[i], &second = other->cells[i];
        const auto* const whole_a = std::get_if<std::int64_t>(&first);
        const auto* const whole_b = std::get_if<std::int64_t>(&second);
        const bool whole = whole_a != nullptr && whole_b != nullptr;
        const Cell difference =
            whole ? Cell(*whole_b - *whole_a) : real_cell(number_of(second) - number_of(first));
        compared.fractions |= std::holds_alternative<float>(first) || std::holds_alternative<float>(second);
        rows.push_back({a.table.name, row.cells[a.component], row.cells[a.layer], row.cells[a.head], row.name,
                        text_cell(row.key), name, first, second, difference,
                        std::abs(number_of(difference))});
      }
      compared.end = rows.size();
      if (compared.begin < compared.end) columns.push_back(std::move(compared));
    }
  }
};

/// Returns the rows from `begin` to `end` of a table.
Table row_range(Table table, std::size_t begin, std::size_t end) {
  table.rows = end - begin;
  table.row = [row = std::move(table.row), begin](std::size_t index, std::span<Cell> cells) {
    row(begin + index, cells);
  };
  return table;
}

/// Returns the `top` heads of each main column with the largest differences that are not 0, by the column
/// `size` of `all`. Without `top`, all columns together have about 36 rows.
Table largest_differences(const Table& all, const std::vector<ComparedColumn>& columns,
                          std::optional<std::size_t> top) {
  std::vector<const ComparedColumn*> shown;
  for (const ComparedColumn& each : columns)
    if (each.is_main(shown.empty() ? nullptr : shown.back())) shown.push_back(&each);
  const std::size_t usual = std::clamp<std::size_t>(36 / std::max<std::size_t>(shown.size(), 1), 1, 5);
  std::vector<std::vector<Cell>> rows;
  std::vector<Cell> cells(all.columns.size());
  for (const ComparedColumn* const each : shown) {
    const std::string table = each->table == "heads" ? "" : each->table + ".";
    const Table largest = select_rows(row_range(all, each->begin, each->end), "size", top.value_or(usual));
    for (std::size_t i = 0; i < largest.rows; ++i) {
      largest.row(i, cells);
      if (number_of(cells.back()) > 0)
        rows.push_back({table + each->column.name, cells[5], cells[4], cells[7], cells[8], cells[9]});
    }
  }
  return make_table("largest", {"column", "key", "head", "a", "b", "difference"}, std::move(rows));
}

/// Adds a row for each role in `from` whose head is also in `other`, but does not have the role there.
void add_role_changes(const HeadRows& from, const HeadRows& other, const char* change,
                      std::vector<std::vector<Cell>>& changes) {
  const std::size_t role = from.table.find("role").value();
  const std::size_t detail = from.table.find("detail").value();
  for (const HeadRow& row : from.rows) {
    if (row.key.empty() || !other.heads.contains(row.name) || other.find(row) != nullptr) continue;
    const std::vector<Cell>& cells = row.cells;
    changes.push_back({cells[from.component], cells[from.layer], cells[from.head], row.name, cells[role],
                       cells[detail], std::string(change)});
  }
}

/// Returns the heads of each role that changed, from the rows of add_role_changes().
Table heads_by_change(const std::vector<std::vector<Cell>>& changes) {
  std::map<std::array<Cell, 3>, std::string> heads;  // by change, role and detail
  for (const std::vector<Cell>& row : changes) {
    std::string& names = heads[{row[6], row[4], row[5]}];
    names += (names.empty() ? "" : ", ") + std::get<std::string>(row[3]);
  }
  std::vector<std::vector<Cell>> rows;
  for (const auto& [key, names] : heads) rows.push_back({key[0], key[1], key[2], names});
  return make_table("roles", {"change", "role", "detail", "heads"}, std::move(rows));
}

/// Returns a picture of one column, with a scale for values of both signs.
HeatmapPage difference_page(const Table& all, const std::vector<ComparedColumn>& columns,
                            const std::string& plot, std::vector<std::string> subtitle) {
  Results results{.subtitle = std::move(subtitle)};
  const Table cells = select_columns(all, {"component", "layer", "key", "head", "difference"});
  for (const ComparedColumn& each : columns) {
    Table& table = results.tables.emplace_back(row_range(cells, each.begin, each.end));
    table.name = each.table;
    table.columns.back() = each.column;
  }
  HeatmapPage page = heads_page(results, plot);
  page.title = "Differences (b - a): " + page.scale.label;
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

std::string plain_text(const Value& value) {
  return std::get<std::string>(std::get<Cell>(value.data));
}

}  // namespace

Results compare_studies(const Results& a, const Results& b, const ComparisonRequest& request,
                        Warnings& warnings) {
  Differences found;
  std::set<std::string> heads_a, heads_b;
  std::optional<std::vector<std::vector<Cell>>> changes;  // of roles
  for (const Table& table : a.tables) {
    const auto other = std::ranges::find(b.tables, table.name, &Table::name);
    if (other == b.tables.end() || other->columns != table.columns || !table.find("layer") ||
        !table.find("head"))
      continue;
    const HeadRows of_a(table), of_b(*other);
    heads_a.insert(of_a.heads.begin(), of_a.heads.end());
    heads_b.insert(of_b.heads.begin(), of_b.heads.end());
    found.add(of_a, of_b);
    if (table.name != "roles") continue;
    changes.emplace();
    add_role_changes(of_b, of_a, "gained", *changes);
    add_role_changes(of_a, of_b, "lost", *changes);
  }
  std::vector<std::string> both;
  std::ranges::set_intersection(heads_a, heads_b, std::back_inserter(both));
  if (both.empty())
    fail(Status::bad_input, "compare: no head is in both studies; select the same heads for both");
  if (found.rows.empty())
    fail(Status::bad_input,
         "compare: these measures have no numbers of single heads; use other --measures, such as metrics");
  const std::size_t only_a = heads_a.size() - both.size();
  const std::size_t only_b = heads_b.size() - both.size();
  if (only_a + only_b > 0)
    warnings.add("heads_left_out",
                 fmt::format("left out heads that are in only one study: {} of a, {} of b", only_a, only_b));

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
                           fmt::format(" ({}, corpus: {})", counted(both.size(), "common head"),
                                       join_texts(std::get<List>(files.data), plain_text))}};
  const auto say = [&results](std::string line) { results.text.emplace_back(TextLine{"", std::move(line)}); };
  const std::vector<std::string> names = {"table", "component", "layer", "head", "name",
                                          "key",   "column",    "a",     "b",    "difference"};
  std::vector<Column> columns(names.begin(), names.end());
  columns.emplace_back("size");
  const Table all = make_table("differences", columns, std::move(found.rows));
  results.add_table("difference", with_definitions(select_columns(all, names)));
  if (changes) {
    const Table roles = with_definitions(
        make_table("roles", {"component", "layer", "head", "name", "role", "detail", "change"}, *changes));
    results.add_table("role", roles);
    const Table text = heads_by_change(*changes);
    const Table shown = select_rows(text, "", request.top.value_or(10));
    if (text.rows > 0)
      results.text.emplace_back(TextTable{"Roles gained (only in b) and lost (only in a)", shown});
    else
      say("No head gained or lost a role.");
    if (text.rows > shown.rows) say(counted(text.rows - shown.rows, "more role") + ": --top all");
  }
  const Table largest = largest_differences(all, found.columns, request.top);
  if (largest.rows > 0)
    results.text.emplace_back(TextTable{"Largest differences (b - a)", largest, 4});
  else
    say("No number of a head differs.");
  results.text.emplace_back(TextLine{});
  say("Differences have no confidence interval yet, so small ones may be chance.");
  if (!request.plot.empty())
    results.pictures.push_back(
        {"differences", difference_page(all, found.columns, request.plot, results.subtitle)});
  return results;
}

}  // namespace attnctl::study
