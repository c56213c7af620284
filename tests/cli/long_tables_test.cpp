#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/console.hpp"
#include "support/csv.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

// CSV tables with a row per number, compared with the JSON of the same run.
namespace attnctl::test {
namespace {

using nlohmann::json;

/// The JSON document of a run and the folder with its CSV tables.
struct JsonAndCsv {
  explicit JsonAndCsv(std::vector<std::string> words) {
    std::vector<std::string> csv = words;
    csv.insert(csv.end(), {"--format", "csv", "-o", (folder.path() / "tables").string()});
    const RunResult tables = run_attnctl(csv);
    REQUIRE_MESSAGE(tables.status == 0, tables.err);
    words.insert(words.end(), {"--format", "json"});
    document = json::parse(run_attnctl(words).out);
    if (words.front() != "analyze" && words.front() != "weights") return;
    const json schema = json::parse(cli::schema_text("analysis"));
    for (const std::string& breach : schema_breaches(schema, document)) FAIL_CHECK(breach);
  }

  [[nodiscard]] bool has(const std::string& name) const {
    return std::filesystem::exists(folder.path() / "tables" / (name + ".csv"));
  }
  [[nodiscard]] std::vector<CsvRow> table(const std::string& name) const {
    REQUIRE_MESSAGE(has(name), name);
    return csv_rows(slurp(folder.path() / "tables" / (name + ".csv")));
  }

  TempDir folder;
  json document;
};

std::string cell_text(const json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Checks that a cell is a number of a JSON document: the same float, or empty for null.
void check_number(const std::string& cell, const json& number) {
  CHECK(cell.empty() == number.is_null());
  if (!cell.empty() && number.is_number()) CHECK(static_cast<float>(std::stod(cell)) == number.get<float>());
}

/// Compares the rows of a long table with the arrays of JSON records, in order.
class LongTableCheck {
 public:
  LongTableCheck(const JsonAndCsv& run, const std::string& name, std::string value)
      : rows_(run.table(name)), value_(std::move(value)) {}

  /// Checks the rows of one array. `axes` are the columns with the indices of its elements. All other columns
  /// that are keys of the record have the values of the record.
  void check(const json& record, const json& array, const std::vector<std::string>& axes) {
    CAPTURE(value_);
    std::vector<std::size_t> place;
    visit(record, array, axes, place);
  }
  void check_end() const { CHECK(next_ == rows_.size()); }

 private:
  void visit(const json& record, const json& value, const std::vector<std::string>& axes,
             std::vector<std::size_t>& place) {
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        place.push_back(i);
        visit(record, value[i], axes, place);
        place.pop_back();
      }
      return;
    }
    REQUIRE(next_ < rows_.size());
    const CsvRow& row = rows_[next_++];
    check_number(row.at(value_), value);
    REQUIRE(place.size() == axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) CHECK(row.at(axes[i]) == std::to_string(place[i]));
    for (const auto& [key, field] : record.items()) {
      if (field.is_structured() || !row.contains(key)) continue;
      CHECK(row.at(key) == cell_text(field));
    }
  }

  std::vector<CsvRow> rows_;
  std::string value_;
  std::size_t next_ = 0;
};

TEST_CASE("captured arrays have the same numbers in CSV and in JSON") {
  const std::map<std::string, std::vector<std::string>> axes = {
      {"scores", {"query", "key"}},
      {"queries", {"position", "dimension"}},
      {"keys", {"kv_head", "position", "dimension"}},
      {"values", {"kv_head", "position", "dimension"}},
      {"z", {"position", "dimension"}},
      {"output", {"position", "dimension"}},
      {"logits", {"position", "id"}},
  };
  // qwen2 has fewer key/value heads than heads; t5 has components.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"tests/golden/qwen2", "--ids", "5,6,7", "--ids", "8,9"},
        std::vector<std::string>{"tests/golden/t5", "--ids", "5,6,7", "--target-ids", "2,3"},
        std::vector<std::string>{"data/tiny-llama", "--text", "Once upon", "--heads", "0.1,2.0,2.3"}}) {
    CAPTURE(words.front());
    std::vector<std::string> command = {"analyze", "--include", "scores,queries,keys,values,z,output,logits"};
    command.insert(command.begin() + 1, words.begin(), words.end());
    const JsonAndCsv run(command);
    for (const auto& [array, columns] : axes) {
      const std::string name = array;
      CAPTURE(name);
      LongTableCheck table(run, name, name == "scores" ? "score" : name == "logits" ? "logit" : "value");
      for (const json& record : run.document.at("arrays")) {
        if (record.at("array") != name) continue;
        if (words.back() == "0.1,2.0,2.3" && (name == "keys" || name == "values")) continue;
        table.check(record, record.at("value"), columns);
      }
      if (words.back() != "0.1,2.0,2.3") table.check_end();
    }
  }
}

TEST_CASE("keys of selected heads have the numbers of their key/value heads") {
  const JsonAndCsv run(
      {"analyze", "data/tiny-llama", "--ids", "5,6", "--heads", "0.1,2.0,2.3", "--include", "keys"});
  std::vector<std::string> heads;
  for (const CsvRow& row : run.table("keys")) {
    const std::string head = row.at("layer") + "." + row.at("kv_head");
    if (heads.empty() || heads.back() != head) heads.push_back(head);
  }
  CHECK(heads == std::vector<std::string>{"0.1", "2.0", "2.3"});
}

TEST_CASE("logits.csv names the tokens, and predictions are the most probable ones") {
  const JsonAndCsv run({"analyze", "data/tiny-bert", "--text", "The [MASK] sat on the [MASK]", "--include",
                        "logits", "--top", "3"});
  const json& predictions = run.document.at("predictions");
  REQUIRE(predictions.size() == 6);
  const json& logits = run.document.at("arrays").at(0).at("value");
  const std::vector<CsvRow> cells = run.table("logits");
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const json& each = predictions[i];
    CHECK(each.at("input") == "0");
    CHECK(each.at("position") == (i < 3 ? 2 : 6));
    CHECK(each.at("rank") == i % 3 + 1);
    const auto row = logits.at(each.at("position").get<std::size_t>()).get<std::vector<double>>();
    const auto id = each.at("id").get<std::size_t>();
    std::size_t larger = 0;
    double sum = 0;
    for (const double logit : row) {
      larger += logit > row[id] ? 1 : 0;
      sum += std::exp(logit - row[id]);
    }
    CHECK(larger == i % 3);
    CHECK(each.at("probability").get<double>() == doctest::Approx(1 / sum).epsilon(1e-6));
    const CsvRow& cell = cells.at(each.at("position").get<std::size_t>() * row.size() + id);
    CHECK(cell.at("token") == each.at("token").get<std::string>());
    check_number(cell.at("logit"), json(row[id]));
  }
  LongTableCheck table(run, "predictions", "probability");
  for (const json& each : predictions) table.check(each, each.at("probability"), {});
  table.check_end();
  const JsonAndCsv next({"analyze", "data/tiny-llama", "--text", "Once upon", "--include", "logits"});
  CHECK(next.document.at("predictions").size() == 5);
  CHECK(next.document.at("predictions").at(0).at("position") ==
        next.document.at("inputs").at(0).at("length").get<std::size_t>() - 1);
}

TEST_CASE("patterns, rollout and flow have the same weights in CSV and in JSON") {
  const JsonAndCsv run({"analyze", "data/tiny-bert", "--text", "The cat sat", "--ids", "5,6", "--include",
                        "patterns,rollout,flow", "--rollout-from", "1"});
  const auto tokens = run.document.at("inputs").at(0).at("tokens").get<std::vector<std::string>>();
  for (const std::string name : {"patterns", "rollout", "rollout_last_layer", "flow"}) {
    CAPTURE(name);
    LongTableCheck table(run, name, "weight");
    const bool whole = name == "patterns";
    for (const json& record : run.document.at(name))
      table.check(record, record.at("weight"),
                  whole ? std::vector<std::string>{"query", "key"} : std::vector<std::string>{"key"});
    table.check_end();
    for (const CsvRow& row : run.table(name)) {
      if (row.at("input") != "0") continue;
      CHECK(row.at("query_token") == tokens.at(std::stoul(row.at("query"))));
      CHECK(row.at("key_token") == tokens.at(std::stoul(row.at("key"))));
    }
  }
}

TEST_CASE("weights: directions, circuits, cosines and cluster trees are the same in CSV and in JSON") {
  for (const bool across : {false, true}) {
    CAPTURE(across);
    std::vector<std::string> words = {"weights",      "tests/golden/qwen2",
                                      "--directions", "2",
                                      "--include",    "directions,circuits,subspaces,map",
                                      "--similarity", "qk,w_v"};
    if (across) words.emplace_back("--across-layers");
    const JsonAndCsv run(words);
    LongTableCheck circuits(run, "circuits", "value");
    for (const json& record : run.document.at("circuits"))
      circuits.check(record, record.at("value"), {"row", "column"});
    circuits.check_end();

    LongTableCheck directions(run, "principal_directions", "value");
    for (json record : run.document.at("principal_directions")) {
      for (const std::string side : {"left", "right"}) {
        const json vectors = record.at(side);
        record["side"] = side;
        directions.check(record, vectors, {"rank", "dimension"});
      }
    }
    directions.check_end();

    LongTableCheck cosines(run, "principal_cosines", "cosine");
    for (json record : run.document.at("projection_kernel")) {
      const json& names = record.at("names");
      for (std::size_t a = 0; a < names.size(); ++a) {
        for (std::size_t b = 0; b < names.size(); ++b) {
          record["name_a"] = names[a];
          record["name_b"] = names[b];
          cosines.check(record, record.at("principal_cosines")[a][b], {"angle"});
        }
      }
    }
    cosines.check_end();

    const std::vector<CsvRow> rows = run.table("linkage");
    std::size_t next = 0;
    for (const json& map : run.document.at("map")) {
      const json& linkage = map.at("linkage");
      for (std::size_t merge = 0; merge < linkage.size(); ++merge) {
        REQUIRE(next < rows.size());
        const CsvRow& row = rows[next++];
        CHECK(row.at("similarity") == cell_text(map.at("similarity")));
        CHECK(row.at("layer") == cell_text(map.at("layer")));
        CHECK(row.at("merge") == std::to_string(merge));
        CHECK(row.at("first") == cell_text(linkage[merge][0]));
        CHECK(row.at("second") == cell_text(linkage[merge][1]));
        check_number(row.at("distance"), linkage[merge][2]);
        CHECK(row.at("size") == cell_text(linkage[merge][3]));
      }
    }
    CHECK(next == rows.size());
    CHECK(next > 0);
  }
}

TEST_CASE("inputs.csv has the ranges and words of texts, and texts.csv the texts") {
  const JsonAndCsv run({"analyze", "data/tiny-bert", "--text", "Is it there?", "--text-pair", "It is.",
                        "--ids", "5,6", "--include", "metrics"});
  const json& pair = run.document.at("inputs").at(0);
  const std::vector<CsvRow> rows = run.table("inputs");
  const std::size_t length = pair.at("length");
  REQUIRE(rows.size() == length + 2);
  for (std::size_t i = 0; i < length; ++i) {
    CHECK(rows[i].at("begin") == cell_text(pair.at("offsets")[i][0]));
    CHECK(rows[i].at("end") == cell_text(pair.at("offsets")[i][1]));
    CHECK(rows[i].at("word") == cell_text(pair.at("words")[i]));
    CHECK(rows[i].at("sequence_id") == cell_text(pair.at("sequence_ids")[i]));
  }
  CHECK(rows.back().at("id") == "6");
  for (const char* const column : {"begin", "end", "word", "sequence_id"})
    CHECK(rows.back().at(column).empty());
  CHECK(slurp(run.folder.path() / "tables" / "texts.csv") ==
        "input,kind,text\r\n0,text,Is it there?\r\n0,text_pair,It is.\r\n");
  const JsonAndCsv ids({"analyze", "data/tiny-bert", "--ids", "5,6", "--include", "metrics"});
  CHECK_FALSE(ids.table("inputs").at(0).contains("begin"));
  CHECK_FALSE(ids.has("texts"));
}

TEST_CASE("numbers in CSV count for --limit as those in JSON") {
  for (const std::string format : {"csv", "json"}) {
    const TempDir folder;
    const RunResult result = run_attnctl({"weights", "data/tiny-llama", "--include", "circuits", "--format",
                                          format, "-o", (folder.path() / "out").string(), "--limit", "1000"});
    CHECK(result.status == 5);
    CHECK_MESSAGE(result.err.find("the output has up to 524448 values") != std::string::npos, result.err);
  }
}

TEST_CASE("info writes the values of its records as the table summary") {
  const JsonAndCsv run({"info", "data/tiny-llama"});
  std::size_t found = 0;
  for (const CsvRow& row : run.table("summary")) {
    const json& part = row.at("part").empty() ? run.document : run.document.at(row.at("part"));
    CHECK(row.at("value") == cell_text(part.at(row.at("property"))));
    ++found;
  }
  std::size_t expected = 2;  // length and batch
  for (const char* const name : {"model", "architecture", "parameters", "stored", "flops", "memory_bytes"}) {
    for (const json& value : run.document.at(name)) expected += value.is_structured() ? 0 : 1;
  }
  CHECK(found == expected);
}

TEST_CASE("verify writes the comparisons as CSV") {
  const std::vector<std::string> words = {"verify", "tests/golden/llama", "--format"};
  std::vector<std::string> csv = words;
  csv.emplace_back("csv");
  std::vector<std::string> as_json = words;
  as_json.emplace_back("json");
  const auto rows = csv_fields(run_attnctl(csv).out);
  const json comparisons = json::parse(run_attnctl(as_json).out).at("comparisons");
  REQUIRE(rows.size() == comparisons.size() + 1);
  CHECK(rows[0] == std::vector<std::string>{"reference", "array", "component", "layer", "max_difference",
                                            "tolerance", "ok"});
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const std::vector<std::string>& cells = rows[i + 1];
    CHECK(cells.at(1) == comparisons[i].at("array").get<std::string>());
    CHECK(cells.at(3) == cell_text(comparisons[i].at("layer")));
    check_number(cells.at(4), comparisons[i].at("max_difference"));
  }
}

}  // namespace
}  // namespace attnctl::test
