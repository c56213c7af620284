#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/pool.hpp"
#include "report/writers.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::report;

namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

std::string json_of(const Document& document, WriteOptions options = {}, bool lines = false) {
  const test::TempDir folder;
  OutputFile out(folder.path() / "out.json");
  if (lines) options.layout = JsonLayout::lines;
  write_json(out, document, options);
  out.commit();
  return test::slurp(folder.path() / "out.json");
}

Document small_document() {
  Document document;
  document.head.set("schema", "attnctl.analysis/1")
      .set("model", Record().set("layers", 2).set("path", "a \"b\""));
  document.sections.push_back({"heads", "head",
                               make_table("heads", {"head", "layer", "entropy", "self"},
                                          {{std::string("0.0"), std::int64_t{0}, 0.5F, Cell{}},
                                           {std::string("0.1"), std::int64_t{0}, kNotANumber, true}})});
  List patterns;
  patterns.emplace_back(
      Record().set("input", "0").set("values", make_tensor({2, 2}, std::vector<float>{1, 0, 0.25F, 0.75F})));
  document.sections.push_back({"patterns", "pattern", std::move(patterns)});
  List ranks;
  ranks.emplace_back(
      Record().set("heads", List{"0.0", "0.1"}).set("values", make_tensor({2}, std::vector<double>{1.5, 2})));
  document.sections.push_back({"effective_ranks", "effective_rank", std::move(ranks)});
  document.sections.push_back({"warnings", "warning", List{}});
  return document;
}

Document large_document(std::size_t rows, std::size_t columns) {
  std::vector<float> values(rows * columns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 977) / 977.0F;
  const Tensor array = make_tensor({rows, columns}, std::move(values));
  Document document;
  document.head.set("schema", "x/1");
  List items;
  for (int i = 0; i < 3; ++i) items.emplace_back(Record().set("n", i).set("values", array));
  document.sections.push_back({"patterns", "pattern", std::move(items)});
  const Table table{"t", {"row", "half"}, 70000, [](std::size_t row, std::span<Cell> cells) {
                      cells[0] = static_cast<std::int64_t>(row);
                      cells[1] = static_cast<float>(row) / 2.0F;
                    }};
  document.sections.push_back({"table", "row", table});
  return document;
}

}  // namespace

TEST_CASE("a document as JSON, by hand") {
  CHECK(json_of(small_document()) == R"({
  "schema": "attnctl.analysis/1",
  "model": {"layers": 2, "path": "a \"b\""},
  "heads": [
    {"head": "0.0", "layer": 0, "entropy": 0.5, "self": null},
    {"head": "0.1", "layer": 0, "entropy": null, "self": true}
  ],
  "patterns": [
    {"input": "0", "values": [
      [1,0],
      [0.25,0.75]
    ]}
  ],
  "effective_ranks": [
    {"heads": ["0.0", "0.1"], "values": [1.5,2]}
  ],
  "warnings": []
}
)");
}

TEST_CASE("a document as JSON Lines, by hand") {
  CHECK(json_of(small_document(), {}, true) ==
        R"({"schema": "attnctl.analysis/1", "model": {"layers": 2, "path": "a \"b\""}}
{"record": "head", "head": "0.0", "layer": 0, "entropy": 0.5, "self": null}
{"record": "head", "head": "0.1", "layer": 0, "entropy": null, "self": true}
{"record": "pattern", "input": "0", "values": [[1,0],[0.25,0.75]]}
{"record": "effective_rank", "heads": ["0.0", "0.1"], "values": [1.5,2]}
)");
}

TEST_CASE("digits, empty and nested shapes in JSON") {
  struct Row {
    Value value;
    const char* want;
  };
  const std::vector<Row> rows{
      {make_tensor({0, 3}, std::vector<float>{}), "[]"},
      {make_tensor({2, 0}, std::vector<float>{}), "[[],[]]"},
      {make_tensor({}, std::vector<double>{0.5}), "0.500"},
      {make_tensor({1, 2, 1}, std::vector<std::int64_t>{7, 8}), "[[[7],[8]]]"},
      {make_tensor({2, 1, 2}, std::vector<float>{1, 2, 3, kNotANumber}), "[[[1.000,2.000]],[[3.000,null]]]"},
      {Record(), "{}"},
      {List{Record().set("a", List{}), 1.0}, "[{\"a\": []}, 1.000]"},
      {make_table("t", {}, {}), "[]"},
      {-std::numeric_limits<double>::infinity(), "null"},
      {false, "false"},
  };
  for (const Row& row : rows) {
    Document document;
    document.head.set("v", row.value);
    CHECK(json_of(document, {{3}, nullptr}, true) == "{\"v\": " + std::string(row.want) + "}\n");
  }
  CHECK(json_of({}) == "{}\n");
}

TEST_CASE("large tensors and tables have the same text for any number of threads") {
  Pool pool(3);
  for (const bool lines : {false, true}) {
    const Document document = large_document(300, 311);
    const std::string alone = json_of(document, {}, lines);
    CHECK(json_of(document, {{}, &pool}, lines) == alone);
    if (lines) continue;
    const auto parsed = nlohmann::json::parse(alone);
    REQUIRE(parsed["patterns"].size() == 3);
    REQUIRE(parsed["table"].size() == 70000);
    CHECK(parsed["table"][69999]["half"] == 34999.5);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < std::size_t{300} * 311; ++i) {
      const auto& number = parsed["patterns"][2]["values"][i / 311][i % 311];
      if (number.get<float>() != static_cast<float>(i % 977) / 977.0F) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a rank-3 array across pieces parses to its shape") {
  const std::size_t extents[] = {7, 90, 101};
  std::vector<std::int64_t> values(std::size_t{7} * 90 * 101);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
  Document document;
  document.head.set("v", make_tensor({7, 90, 101}, std::move(values)));
  const auto parsed = nlohmann::json::parse(json_of(document))["v"];
  REQUIRE(parsed.size() == extents[0]);
  std::int64_t next = 0;
  for (const auto& matrix : parsed) {
    REQUIRE(matrix.size() == extents[1]);
    for (const auto& row : matrix) {
      REQUIRE(row.size() == extents[2]);
      for (const auto& value : row) REQUIRE(value == next++);
    }
  }
}

TEST_CASE("JSON strings are valid UTF-8 without control characters") {
  struct Row {
    std::string_view text;
    std::string_view want;
  };
  for (const Row& row : {
           Row{"plain \xc4\xa0it", "\"plain \xc4\xa0it\""},
           Row{"q\" b\\ n\n r\r t\t", R"("q\" b\\ n\n r\r t\t")"},
           Row{std::string_view("\0\x1b[31m\x7f", 7), R"("\u0000\u001b[31m\u007f")"},
           Row{"\xc2\x9b", R"("\u009b")"},
           Row{"\xe2\x80\xa8\xe2\x80\xa9", R"("\u2028\u2029")"},
           Row{"a\xff\xc3z", "\"a\xef\xbf\xbd\xef\xbf\xbdz\""},
           Row{"\"><script>", R"("\"><script>")"},
       }) {
    std::string text;
    append_json_string(text, row.text);
    CHECK(text == row.want);
    CHECK(nlohmann::json::accept(text));
  }
}

TEST_CASE("an exception of a row generator reaches the caller") {
  Pool pool(3);
  Document document;
  document.sections.push_back(
      {"t", "r", Table{"t", {"a"}, 500000, [](std::size_t row, std::span<Cell> cells) {
                         if (row == 250000) throw std::runtime_error("row");
                         cells[0] = static_cast<std::int64_t>(row);
                       }}});
  CHECK_THROWS_WITH(json_of(document, {{}, &pool}), "row");
}

namespace attnctl::test {

using namespace report;

namespace {

std::string whole(const Document& document, JsonLayout style) {
  const TempDir folder;
  OutputFile out(folder.path() / "whole");
  write_json(out, document, {.layout = style});
  out.commit();
  return slurp(folder.path() / "whole");
}

TEST_CASE("a streamed document has the same bytes as one that is written at once") {
  Record head;
  head.set("schema", "x/1").set("tool", Record().set("threads", 2));
  Record warning;
  warning.set("code", "a").set("count", 1);
  for (const JsonLayout style : {JsonLayout::document, JsonLayout::lines}) {
    for (const std::size_t items : {0U, 1U, 3U}) {
      for (const std::size_t warnings : {0U, 2U}) {
        CAPTURE(items);
        CAPTURE(warnings);
        List list;
        const TempDir folder;
        OutputFile out(folder.path() / "stream");
        JsonStream stream(out, style, "inputs", "input");
        stream.begin(head);
        for (std::size_t i = 0; i < items; ++i) {
          Record item;
          item.set("id", std::to_string(i)).set("n", i);
          list.emplace_back(item);
          std::string text;
          stream.open_item(text);
          text += "\"id\": \"" + std::to_string(i) + "\", \"n\": " + std::to_string(i);
          stream.close_item(text);
          stream.write_items(text);
          stream.write_items("");
        }
        const Section last{"warnings", "warning", List(warnings, Value(warning))};
        stream.end(last);
        out.commit();
        CHECK(slurp(folder.path() / "stream") == whole({head, {{"inputs", "input", list}, last}}, style));
      }
    }
  }
}

}  // namespace
}  // namespace attnctl::test
