#include <algorithm>
#include <cstdint>
#include <regex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "report/text.hpp"
#include "results/results.hpp"
#include "study/measure.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::test {
namespace {

using Rows = std::vector<std::vector<Cell>>;
const Cell kNone;

Cell whole(std::int64_t number) {
  return number;
}

/// The results of a study of two heads, 0.0 and 0.1, with the columns `name` and `model`, which a comparison
/// ignores, and a baseline, which is not about a head.
Results study_of(const std::string& model, float entropy, float accuracy,
                 const std::vector<std::string>& roles, std::int64_t pairs = 100) {
  Results results;
  results.document.head.set("model", Record().set("path", model).set("family", "attention"))
      .set("corpus", Record().set("files", List{"corpus.txt"}));
  const auto add = [&](const char* name, std::vector<Column> columns, const Rows& rows) {
    results.tables.push_back(study::with_definitions(make_table(name, std::move(columns), rows)));
  };
  add("heads", {"model", "component", "layer", "head", "name", "kv_head", "entropy", "entropy_count"},
      {{model, kNone, whole(0), whole(0), "0.0", whole(0), 0.25F, whole(7)},
       {model, kNone, whole(0), whole(1), "0.1", whole(1), entropy, whole(7)}});
  add("relations",
      {"relation", "direction", "component", "layer", "head", "name", "hits", "count", "accuracy", "best"},
      {{"nsubj", "to_head", kNone, whole(0), whole(0), "0.0", whole(3), whole(pairs), 0.5F, true},
       {"nsubj", "to_head", kNone, whole(0), whole(1), "0.1", whole(4), whole(pairs), accuracy, false},
       {"nsubj", "to_head", kNone, kNone, kNone, kNone, whole(1), whole(pairs), 0.125F, false}});
  add("positional", {"component", "layer", "head", "name", "offset", "weight"},
      {{kNone, whole(0), whole(1), "0.1", whole(-1), 0.5F},
       {kNone, whole(0), whole(1), "0.1", whole(0), kNone}});
  Rows role_rows;
  for (std::size_t head = 0; head < roles.size(); ++head)
    role_rows.push_back({kNone, whole(0), count_cell(head), "0." + std::to_string(head),
                         study::text_cell(roles[head]), kNone, roles[head].empty() ? kNone : Cell(0.75F),
                         roles[head].empty() ? kNone : Cell(0.5F), roles[head].empty() ? kNone : Cell(0.875F),
                         roles[head].empty() ? "none of ..." : "x"});
  add("roles", {"component", "layer", "head", "name", "role", "detail", "score", "low", "high", "rule"},
      role_rows);
  return results;
}

Rows rows_in(const Table& table) {
  Rows rows(table.rows, std::vector<Cell>(table.columns.size()));
  for (std::size_t i = 0; i < table.rows; ++i) table.row(i, rows[i]);
  return rows;
}

Results compared(const Results& a, const Results& b, const study::ComparisonRequest& request = {}) {
  Warnings warnings;
  Results results = study::compare_studies(a, b, request, warnings);
  CHECK(warnings.list().empty());
  return results;
}

/// Returns the rows of `differences` as "TABLE NAME KEY COLUMN", each with the difference.
std::vector<std::pair<std::string, double>> differences_in(const Results& results) {
  std::vector<std::pair<std::string, double>> list;
  for (const std::vector<Cell>& row : rows_in(table_named(results, "differences"))) {
    std::string text;
    for (const std::size_t column : {0U, 4U, 5U, 6U}) {
      const auto* const word = std::get_if<std::string>(&row[column]);
      text += (text.empty() ? "" : " ") + (word == nullptr ? "-" : *word);
    }
    list.emplace_back(text, number_of(row[9]));
  }
  return list;
}

/// Returns the text page, with one space for each gap and line end.
std::string text_of_page(const Results& results) {
  static const std::regex space("\\s+");
  return std::regex_replace(report::text_page(results.text, {}), space, " ");
}

TEST_CASE("a comparison finds a planted difference, and nothing else") {
  const Results a = study_of("a", 0.5F, 0.25F, {"sink", ""});
  const Results b = study_of("b", 0.75F, 0.25F, {"sink", ""});
  const auto found = differences_in(compared(a, b));
  std::vector<std::string> names;
  for (const auto& each : found) {
    CAPTURE(each.first);
    names.push_back(each.first);
    CHECK(each.second == (each.first == "heads 0.1 - entropy" ? 0.25 : 0));
  }
  CHECK(names == std::vector<std::string>{
                     "heads 0.0 - entropy", "heads 0.1 - entropy", "relations 0.0 nsubj to_head accuracy",
                     "relations 0.1 nsubj to_head accuracy", "positional 0.1 offset -1 weight",
                     "roles 0.0 sink score", "roles 0.0 sink low", "roles 0.0 sink high",
                     "heads 0.0 - entropy_count", "heads 0.1 - entropy_count",
                     "relations 0.0 nsubj to_head hits", "relations 0.1 nsubj to_head hits",
                     "relations 0.0 nsubj to_head count", "relations 0.1 nsubj to_head count"});
  const auto back = differences_in(compared(b, a));
  REQUIRE(back.size() == found.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(back[i].second == -found[i].second);
  for (const auto& each : differences_in(compared(a, a))) CHECK(each.second == 0);
  const Rows rows = rows_in(compared(a, b).tables[0]);
  CHECK(rows[1] == std::vector<Cell>{"heads", kNone, whole(0), whole(1), "0.1", kNone, "entropy", 0.5F, 0.75F,
                                     0.25F, kNone, kNone, kNone});
  CHECK(std::holds_alternative<std::int64_t>(rows.back()[9]));  // a difference of counts
}

TEST_CASE("a number that only one study defines has no difference") {
  Results a = study_of("a", 0.5F, 0.25F, {"", ""});
  Results b = a;
  b.tables[2] = make_table("positional", a.tables[2].columns,
                           {{kNone, whole(0), whole(1), "0.1", whole(-1), kNone},
                            {kNone, whole(0), whole(1), "0.1", whole(0), kNone}});
  const Rows rows = rows_in(compared(a, b).tables[0]);
  const auto row = std::ranges::find(rows, Cell("positional"),
                                     [](const std::vector<Cell>& cells) -> const Cell& { return cells[0]; });
  REQUIRE(row != rows.end());
  CHECK((*row)[7] == Cell(0.5F));
  CHECK((*row)[8] == kNone);
  CHECK((*row)[9] == kNone);
}

TEST_CASE("a comparison lists the roles that heads gained and lost") {
  const Results a = study_of("a", 0.5F, 0.25F, {"sink", "local"});
  const Results b = study_of("b", 0.5F, 0.25F, {"sink", "broad"});
  const Results results = compared(a, b);
  CHECK(rows_in(table_named(results, "roles")) ==
        Rows{{kNone, whole(0), whole(1), "0.1", "broad", kNone, "gained", 0.75F, 0.5F, 0.875F},
             {kNone, whole(0), whole(1), "0.1", "local", kNone, "lost", 0.75F, 0.5F, 0.875F}});
  const std::string page = text_of_page(results);
  CHECK(page.starts_with("a: a, b: b (2 common heads, corpus: corpus.txt) "));
  CHECK(page.find("gained broad - 0.1 lost local - 0.1 ") != std::string::npos);
  CHECK(page.find("No number of a head that text shows differs.") != std::string::npos);
  const std::string same = text_of_page(compared(a, a));
  CHECK(same.find("No head gained or lost a role.") != std::string::npos);
  const std::string less = text_of_page(compared(a, b, {.top = 1}));
  CHECK(less.find("1 more role: --top all") != std::string::npos);
}

TEST_CASE("the text of a comparison shows the largest differences first") {
  const Results a = study_of("a", 0.5F, 0.25F, {"", ""});
  Results b = study_of("b", 0.0F, 0.75F, {"", ""});
  b.tables[0] = make_table("heads", a.tables[0].columns,
                           {{"b", kNone, whole(0), whole(0), "0.0", whole(0), 0.5F, whole(7)},
                            {"b", kNone, whole(0), whole(1), "0.1", whole(1), 0.0F, whole(9)}});
  const std::string page = text_of_page(compared(a, b));
  const std::size_t first =
      page.find(" entropy - 0.1 0.5000 0.0000 -0.5000 entropy - 0.0 0.2500 0.5000 0.2500 ");
  CHECK_MESSAGE(first != std::string::npos, page);
  CHECK(page.find("relations.accuracy nsubj to_head 0.1") != std::string::npos);
  CHECK(page.find("entropy_count") == std::string::npos);
  CHECK(page.find("hits") == std::string::npos);
  const std::string one = text_of_page(compared(a, b, {.top = 1}));
  CHECK(one.find("0.2500 0.5000") == std::string::npos);
  CHECK_MESSAGE(one.find("Largest differences (b - a), 1 per column (--top N)") != std::string::npos, one);
  CHECK(page.find("per column") == std::string::npos);  // has all differences
  const std::string same = text_of_page(compared(a, a));
  CHECK(same.find("No number of a head that text shows differs") != std::string::npos);
  CHECK(same.find("confidence interval") == std::string::npos);
}

TEST_CASE("the text of a comparison leaves out distances and relations with few word pairs") {
  Results a = study_of("a", 0.5F, 0.25F, {"", ""}, 99);
  Results b = study_of("b", 0.5F, 0.75F, {"", ""});
  for (Results* const each : {&a, &b}) {
    const Cell weight = each == &a ? 0.25F : 0.5F;
    each->tables.push_back(study::with_definitions(
        make_table("distance", {"component", "layer", "head", "name", "first", "last", "weight"},
                   {{kNone, whole(0), whole(0), "0.0", whole(1), whole(1), weight},
                    {kNone, whole(0), whole(0), "0.0", whole(2), whole(3), weight}})));
  }
  const Results results = compared(a, b);
  std::vector<std::string> names;
  for (const auto& each : differences_in(results)) names.push_back(each.first);
  CHECK(std::ranges::count(names, "distance 0.0 distance 1 weight") == 1);
  CHECK(std::ranges::count(names, "distance 0.0 distance 2-3 weight") == 1);
  CHECK(text_of_page(results).find("Largest differences") == std::string::npos);
  CHECK(text_of_page(compared(study_of("a", 0.5F, 0.25F, {"", ""}), b)).find("relations.accuracy") !=
        std::string::npos);
}

TEST_CASE("models of different families or shapes are named in the text of a comparison") {
  const Results a = study_of("a", 0.5F, 0.25F, {"", ""});
  const char* const line = "The models have different architectures";
  CHECK(text_of_page(compared(a, a)).find(line) == std::string::npos);
  for (const auto& [family, layers] : {std::pair("bert", 2), std::pair("attention", 3)}) {
    Results like = a;
    like.document.head.fields[0].second =
        Record().set("path", "a").set("family", "attention").set("layers", 2);
    Results b = a;
    b.document.head.fields[0].second = Record().set("path", "b").set("family", family).set("layers", layers);
    CHECK(text_of_page(compared(like, b)).find(line) != std::string::npos);
  }
}

TEST_CASE("heads that are in only one study are counted, and an error if there are no others") {
  const Results a = study_of("a", 0.5F, 0.25F, {"", "local"});
  Results b = study_of("b", 0.5F, 0.25F, {""});
  const auto head = [](std::int64_t layer) {
    return Rows{{"b", kNone, whole(layer), whole(0), std::to_string(layer) + ".0", whole(0), 0.5F, whole(7)}};
  };
  b.tables.erase(b.tables.begin() + 1, b.tables.begin() + 3);
  b.tables[0] = make_table("heads", a.tables[0].columns, head(0));
  Warnings warnings;
  const Results results = study::compare_studies(a, b, {}, warnings);
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].code == "heads_left_out");
  CHECK(warnings.list()[0].message == "left out heads that are in only one study: 1 of a, 0 of b");
  CHECK(differences_in(results).size() == 2);
  CHECK(table_named(results, "roles").rows == 0);  // head 0.1, which has a role in a, is not in b
  b.tables = {make_table("heads", a.tables[0].columns, head(5))};
  CHECK_THROWS_WITH_AS((void)study::compare_studies(a, b, {}, warnings),
                       doctest::Contains("no head is in both studies"), Error);
}

TEST_CASE("the picture of a comparison has a scale for both signs") {
  const Results a = study_of("a", 0.5F, 0.25F, {"", ""});
  const Results b = study_of("b", 0.75F, 0.5F, {"", ""});
  const HeatmapPage page =
      std::get<HeatmapPage>(compared(a, b, {.top = {}, .plot = "entropy"}).pictures.at(0).page);
  CHECK(page.scale.diverging);
  CHECK(page.scale.low == -0.25);
  CHECK(page.scale.high == 0.25);
  CHECK(page.title == "Differences (b - a): entropy (nats)");
  CHECK(page.scale.label == "difference of entropy (nats)");
  CHECK(page.subtitle.at(1) == "b: b");
  REQUIRE(page.heatmaps.size() == 1);
  CHECK(page.heatmaps[0].values.at(1) == 0.25);
  const HeatmapPage other =
      std::get<HeatmapPage>(compared(a, b, {.top = {}, .plot = "relations.accuracy"}).pictures.at(0).page);
  CHECK(other.heatmaps.at(0).title == "nsubj to_head");
}

}  // namespace
}  // namespace attnctl::test
