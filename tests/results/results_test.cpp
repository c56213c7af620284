#include "results/results.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "report/npz.hpp"
#include "report/text.hpp"
#include "report/writers.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kUndefinedFloat = static_cast<float>(kUndefined);

/// Five rows: a finite number, an undefined cell, an undefined NaN, a NaN, an infinity.
Table table() {
  return make_table("t", {"name", "value"},
                    {{"a", 1.0F}, {"b", Cell()}, {"c", kUndefinedFloat}, {"d", kNaN}, {"e", -kInfinity}});
}

}  // namespace

TEST_CASE("non-finite numbers are counted in every part of a value, undefined numbers are not") {
  const Tensor floats = make_tensor({2, 2}, std::vector<float>{1, kNaN, kUndefinedFloat, 2});
  const Tensor doubles = make_tensor({3}, std::vector<double>{kInfinity, -kInfinity, kUndefined});
  const Tensor integers = make_tensor({2}, std::vector<std::int64_t>{1, 2});
  CHECK(count_non_finite(floats) == 1);
  CHECK(count_non_finite(doubles) == 2);
  CHECK(count_non_finite(integers) == 0);
  CHECK(count_non_finite(table()) == 2);
  Record record;
  record.set("array", floats).set("cell", kInfinity).set("undefined", Value()).set("text", "nan");
  CHECK(count_non_finite(Value(List{Value(record), Value(doubles), Value(table())})) == 2 + 2 + 2);
}

TEST_CASE("-inf of hidden keys is not counted, NaN and +inf of the same tensor are") {
  const auto infinity = static_cast<float>(kInfinity);
  const std::vector<float> scores{1, -infinity, infinity, kNaN};
  CHECK(count_non_finite(scores, false) == 3);
  CHECK(count_non_finite(scores, true) == 2);
}

TEST_CASE("writers count the numbers that they cannot write") {
  const test::TempDir folder;
  OutputFile csv(folder.path() / "t.csv");
  CHECK(report::write_csv_table(csv, table()) == 2);

  std::atomic<std::uint64_t> count = 0;
  report::TextOptions style;
  style.non_finite = &count;
  std::string text;
  report::append_text_table(text, table(), style);
  CHECK(count == 2);
  const Tensor values = make_tensor({1, 3}, std::vector<float>{kNaN, kUndefinedFloat, 0});
  report::append_text_matrix(text, {.corner = "q", .row_labels = {}, .column_labels = {}, .values = values},
                             style);
  report::append_text_heatmap(text, {.corner = "q", .row_labels = {}, .column_labels = {}, .values = values},
                              style);
  CHECK(count == 4);

  OutputFile out(folder.path() / "t.npz");
  report::NpzWriter npz(out);
  npz.add("values", values);
  CHECK(npz.non_finite() == 1);
  const std::vector<float> scores{-static_cast<float>(kInfinity), kNaN};
  npz.add_streamed("scores", {2}, true).write(0, scores);
  CHECK(npz.non_finite() == 2);
  npz.add_streamed("z", {2}).write(0, scores);
  CHECK(npz.non_finite() == 4);
}

using namespace attnctl;

TEST_CASE("a table returns its rows") {
  const Table table = make_table("t", {"a", "b"}, {{std::int64_t{1}, std::string("x")}, {2.5F, Cell{}}});
  REQUIRE(table.rows == 2);
  std::vector<Cell> cells(2);
  table.row(1, cells);
  CHECK(std::get<float>(cells[0]) == 2.5F);
  CHECK(std::holds_alternative<std::monostate>(cells[1]));
  table.row(0, cells);
  CHECK(std::get<std::string>(cells[1]) == "x");
  CHECK_THROWS_AS((void)make_table("t", {"a", "b"}, {{true}}), std::invalid_argument);
}

TEST_CASE("a tensor shares its values") {
  Tensor copy;
  {
    const Tensor array = make_tensor({2, 2}, std::vector<float>{1, 2, 3, 4});
    copy = array;
  }
  CHECK(copy.size() == 4);
  CHECK(std::get<std::span<const float>>(copy.values)[3] == 4.0F);
  CHECK(make_tensor({}, std::vector<double>{1.0}).size() == 1);
  CHECK(make_tensor({0, 5}, std::vector<std::int64_t>{}).size() == 0);
  CHECK_THROWS_AS((void)make_tensor({2, 2}, std::vector<float>{1, 2, 3}), std::invalid_argument);
}

TEST_CASE("columns are selected by name") {
  const Table table = make_table("t", {"head", "entropy"}, {{"0.0", 1.5F}});
  const Table selected = select_columns(table, {"entropy", "head"});
  CHECK(selected.columns == std::vector<Column>{"entropy", "head"});
  std::vector<Cell> cells(2);
  selected.row(0, cells);
  CHECK(cells == std::vector<Cell>{1.5F, "0.0"});
  CHECK(table.find("entropy") == 1);
  CHECK_FALSE(table.find("rank"));
}

TEST_CASE("a column without a definition is a fault of the program") {
  CHECK(columns_of({}, {"layer"})[0].definition != nullptr);
  CHECK_THROWS_WITH_AS((void)columns_of({}, {"layr"}), "the column layr has no definition",
                       std::invalid_argument);
}

TEST_CASE("a run without pictures says what to do, with the first advice of its parts") {
  Results results;
  CHECK_THROWS_WITH_AS((void)view_named(results, ""), "this run has no picture; use text, json or csv",
                       Error);
  Results first;
  Results second;
  first.picture_hint = "give --show";
  second.picture_hint = "give --plot";
  results.append(std::move(first));
  results.append(std::move(second));
  CHECK_THROWS_WITH_AS((void)view_named(results, ""), "this run has no picture; give --show", Error);
}

TEST_CASE("values that are undefined, or of a row without a head, are not drawn") {
  Results results;
  results.tables = {make_table("a", {"layer", "head", "value"},
                               {{std::int64_t{0}, std::int64_t{0}, 0.5F},
                                {Cell(), std::int64_t{7}, 0.5F},
                                {std::int64_t{7}, Cell(), 0.5F},
                                {std::int64_t{0}, std::int64_t{1}, kUndefinedFloat}})};
  const HeatmapPage page = heads_page(results, "value");
  REQUIRE(page.heatmaps.size() == 1);
  CHECK(page.heatmaps[0].values.shape == Shape{1, 2});
  CHECK(page.heatmaps[0].values.at(0) == 0.5);
  CHECK(is_undefined(page.heatmaps[0].values.at(1)));
}

TEST_CASE("heatmaps of a column have the layers and heads of its whole table") {
  const auto row = [](const char* kind, std::int64_t layer, std::int64_t head, const Cell& value) {
    return std::vector<Cell>{kind, layer, head, value};
  };
  Results results;
  results.tables = {make_table("a", {"kind", "layer", "head", "value"},
                               {row("x y", 0, 0, 0.5F), row("x y", 1, 3, Cell()), row("x z", 1, 0, 0.25F)}),
                    make_table("pairs", {"layer_a", "head_a", "layer_b", "head_b", "similarity"}, {})};
  const HeatmapPage page = heads_page(results, "value");
  REQUIRE(page.heatmaps.size() == 2);
  for (const Heatmap& heatmap : page.heatmaps) CHECK(heatmap.values.shape == Shape{2, 2});
  CHECK(page.heatmaps[1].values.at(2) == 0.25);
  CHECK(is_undefined(page.heatmaps[1].values.at(0)));
  CHECK(page.small_values);
  const HeatmapPage one = heads_page(results, "a.value=z x");
  REQUIRE(one.heatmaps.size() == 1);
  CHECK(one.title == "Heads: a value, x z");
  CHECK_THROWS_WITH_AS((void)heads_page(results, "value=x yz"),
                       "--plot value=x yz: no heatmap has a title with each word of \"x yz\"; the titles are "
                       "x y, x z",
                       Error);
  CHECK_THROWS_WITH_AS(
      (void)heads_page(results, "pairs.similarity"),
      "--plot pairs.similarity: the table pairs has a row per pair of heads; need a column of "
      "a table with a row per head, such as entropy or contributions.share",
      Error);
}

TEST_CASE("--plot of a table without heads says what its rows are") {
  Results results;
  results.tables = {make_table("depths", {"layer", "share"}, {}),
                    make_table("texts", {"input", "tokens"}, {})};
  CHECK_THROWS_WITH_AS((void)heads_page(results, "depths.share"),
                       doctest::Contains("the table depths has rows per layer; need a column of"), Error);
  CHECK_THROWS_WITH_AS((void)heads_page(results, "texts.tokens"),
                       doctest::Contains("the table texts has no rows per head; need a column of"), Error);
}

TEST_CASE("a picture of a column has at most 24 heatmaps, those with the largest counts") {
  Results results;
  std::vector<std::vector<Cell>> rows;
  for (std::int64_t i = 0; i < 30; ++i)
    rows.push_back({fmt::format("r{} to_head", i), std::int64_t{0}, std::int64_t{0}, i, 0.5F});
  results.tables = {make_table("relations", {"relation", "layer", "head", "count", "accuracy"}, rows),
                    make_table("plain", {"relation", "layer", "head", "value"},
                               {{"x", std::int64_t{0}, std::int64_t{0}, 0.5F}})};
  const HeatmapPage page = heads_page(results, "accuracy");
  REQUIRE(page.heatmaps.size() == 24);
  CHECK(page.heatmaps.front().title == "r29 to_head");
  CHECK(page.heatmaps.back().title == "r6 to_head");
  CHECK(page.subtitle.back() ==
        "24 of 30 heatmaps, those with the largest count; --plot \"accuracy=r29 to_head\" draws one");
  for (const char* const words : {"r3 to_head", "r3 to head"}) {
    const HeatmapPage one = heads_page(results, fmt::format("accuracy={}", words));
    REQUIRE(one.heatmaps.size() == 1);
    CHECK(one.heatmaps[0].title == "r3 to_head");
    CHECK(one.subtitle.empty());
  }
  CHECK(heads_page(results, "plain.value").subtitle.empty());
}

TEST_CASE("without counts, the first 24 heatmaps are drawn") {
  Results results;
  std::vector<std::vector<Cell>> rows;
  for (std::int64_t i = 0; i < 25; ++i)
    rows.push_back({fmt::format("r{}", i), std::int64_t{0}, std::int64_t{0}, 0.5F});
  results.tables = {make_table("relations", {"relation", "layer", "head", "accuracy"}, rows)};
  const HeatmapPage page = heads_page(results, "accuracy");
  REQUIRE(page.heatmaps.size() == 24);
  CHECK(page.heatmaps.front().title == "r0");
  CHECK(page.heatmaps.back().title == "r23");
  CHECK(page.subtitle.back() == "24 of 25 heatmaps; --plot \"accuracy=r0\" draws one");
}

TEST_CASE("a tensor has a name and values") {
  const Tensor tensor("pattern", make_tensor({2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6}));
  CHECK(tensor.name == "pattern");
  CHECK(tensor.at(4) == 5);
}

TEST_CASE("a record keeps the order of its fields") {
  const Value value = Record().set("b", 1).set("a", "text");
  const auto& record = *std::get<std::shared_ptr<const Record>>(value.data);
  REQUIRE(record.fields.size() == 2);
  CHECK(record.fields[0].first == "b");
  CHECK(std::get<std::int64_t>(std::get<Cell>(record.fields[0].second.data)) == 1);
}
