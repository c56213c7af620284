#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

RunResult run_bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), {"--threads", "2", "--repeat", "1"});
  return run_attnctl(arguments);
}

json bench(const std::vector<std::string>& arguments) {
  const RunResult result = run_bench(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

const json& row_of(const json& document, const std::string& stage, const json& length) {
  for (const json& row : document["rows"]) {
    if (row["stage"] == stage && row["length"] == length) return row;
  }
  FAIL("no row of " << stage << " at " << length);
  return document;
}

TEST_CASE("bench measures every stage at every length and leaves no file") {
  const TempDir folder;
  std::filesystem::create_directory(folder.path() / "scratch");
  const RunResult result = run_attnctl({"bench", "data/tiny-llama", "--lengths", "4,9", "--batch", "3",
                                        "--threads", "2", "--repeat", "2", "--format", "json"},
                                       {.environment = {{"TMPDIR", (folder.path() / "scratch").string()}}});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(std::filesystem::is_empty(folder.path() / "scratch"));
  const json document = json::parse(result.out);
  const json schema = json::parse(slurp(std::filesystem::path(ATTNCTL_SOURCE_DIR) / "schemas/bench.json"));
  for (const std::string& breach : schema_breaches(schema, document)) FAIL_CHECK(breach);
  CHECK(document["attnctl"]["threads"] == 2);
  CHECK(document["repeat"] == 2);
  CHECK(document["peak_gflops"].get<double>() > 0);
  CHECK(document["read_gbs"].get<double>() > 0);

  const std::vector<std::string> of_inputs = {"forward",    "patterns",  "analyze",  "capture",
                                              "write_json", "write_csv", "write_npz"};
  std::vector<std::pair<std::string, json>> want = {{"load", nullptr}};
  for (const int length : {4, 9}) {
    for (const std::string& stage : of_inputs) want.emplace_back(stage, length);
  }
  want.emplace_back("weights", nullptr);
  REQUIRE(document["rows"].size() == want.size());
  const double peak = document["peak_gflops"].get<double>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    const json& row = document["rows"][i];
    CAPTURE(row.dump());
    CHECK(row["stage"] == want[i].first);
    CHECK(row["length"] == want[i].second);
    CHECK(row["batch"] == (want[i].second.is_null() ? json() : json(3)));
    CHECK(row["ms_min"].get<double>() > 0);
    CHECK(row["ms_min"].get<double>() <= row["ms_median"].get<double>());
    CHECK(row["ms_median"].get<double>() <= row["ms_max"].get<double>());
    const bool is_pass =
        std::find(of_inputs.begin(), of_inputs.begin() + 4, want[i].first) != of_inputs.begin() + 4;
    CHECK(row["gflops"].is_number() == is_pass);
    CHECK(row["peak_mib"].get<double>() > 1);
    if (is_pass)
      CHECK(row["peak_share"].get<double>() ==
            doctest::Approx(row["gflops"].get<double>() / peak).epsilon(0.01));
  }
}

/// Returns the counted operations in millions, from the rate and the time.
double counted(const json& row) {
  return row["gflops"].get<double>() * row["ms_median"].get<double>();
}

TEST_CASE(
    "FLOPs count only what the pass computes: no hidden scores, and for patterns not the end of the last "
    "layer") {
  const TempDir folder;
  folder.write("causal.json", R"({"model_type": "attention", "heads": 2, "causal": true})");
  folder.write("full.json", R"({"model_type": "attention", "heads": 2})");
  const std::string model = (folder.path() / "w.json").string();
  const auto matrix = [](std::size_t n) { return json(std::vector(n, std::vector(n, 0.01))); };
  json weights;
  for (const char* name : {"W_q", "W_k", "W_v", "W_o"}) weights[name] = matrix(64);
  folder.write("w.json", weights.dump());
  const double n = 100, d = 64, projection = 2 * n * d * d, pairs = 2 * n * n * d;
  struct Row {
    const char* config;
    const char* stage;
    double want;
  };
  for (const Row& row : {Row{"full", "forward", 4 * projection + 2 * pairs},
                         {"full", "patterns", 2 * projection + pairs},
                         {"causal", "forward", 4 * projection + 2 * pairs * (n + 1) / (2 * n)},
                         {"causal", "analyze", 2 * projection + pairs * (n + 1) / (2 * n)}}) {
    CAPTURE(row.config);
    CAPTURE(row.stage);
    const json document = bench({model, "--config", (folder.path() / row.config).string() + ".json",
                                 "--lengths", "100", "--stages", row.stage});
    CHECK(document["rows"].size() == 1);
    CHECK(counted(row_of(document, row.stage, 100)) == doctest::Approx(row.want / 1e6).epsilon(0.02));
  }
}

TEST_CASE("bench measures every kind of model, at lengths that it supports") {
  struct Row {
    std::string model;
    int length;  // length in the only row of the stage forward
  };
  for (const Row& row : {Row{"tests/golden/bert", 11},
                         {"tests/golden/llama", 16},
                         {"tests/golden/t5", 16},
                         {"tests/golden/vit", 0},
                         {"tests/golden/attention-qk-only", 16},
                         {"tests/golden/mixtral", 13},
                         {"tests/golden/mha-kdim-vdim", 16}}) {
    CAPTURE(row.model);
    const RunResult result = run_bench({row.model, "--stages", "forward,write_npz"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const json document = json::parse(result.out);
    REQUIRE(document["rows"].size() >= 2);
    CHECK(document["rows"][0]["stage"] == "forward");
    CHECK(document["rows"][0]["gflops"].get<double>() >= 0);
    if (row.length > 0) CHECK(document["rows"][0]["length"] == row.length);
  }
}

TEST_CASE("bench measures inputs of different lengths in one run, and counts the FLOPs of each") {
  const TempDir folder;
  folder.write("ids.jsonl", "{\"ids\": [1, 2, 3]}\n{\"ids\": [4, 5, 6, 7, 8]}\n{\"ids\": [9, 10, 11]}\n");
  const std::string file = (folder.path() / "ids.jsonl").string();
  const json document = bench({"data/tiny-bert", "--input", file, "--stages", "load,forward,capture"});
  const json& row = row_of(document, "forward", nullptr);
  CHECK(row["batch"] == 3);
  CHECK(row_of(document, "load", nullptr)["batch"] == nullptr);
  const auto alone = [](const char* length, int tokens) {
    return counted(
        row_of(bench({"data/tiny-bert", "--lengths", length, "--stages", "forward"}), "forward", tokens));
  };
  CHECK(counted(row) == doctest::Approx(2 * alone("3", 3) + alone("5", 5)).epsilon(0.02));

  const json alike = bench({"data/tiny-bert", "--ids", "1,2,3", "--ids", "4,5,6", "--stages", "patterns"});
  REQUIRE(alike["rows"].size() == 1);
  CHECK(row_of(alike, "patterns", 3)["batch"] == 2);
}

TEST_CASE("bench writes its rows as text and CSV") {
  const std::vector<std::string> what = {"data/tiny-bert", "--lengths", "8", "--stages", "forward,weights"};
  std::vector<std::string> arguments = what;
  arguments.insert(arguments.end(), {"--format", "csv"});
  const RunResult csv = run_bench(arguments);
  REQUIRE_MESSAGE(csv.status == 0, csv.err);
  CHECK(csv.out.starts_with(
      "stage,length,batch,ms_min,ms_median,ms_max,gflops,peak_share,peak_mib\r\nforward,8,1,"));
  CHECK(std::ranges::count(csv.out, '\n') == 3);
  arguments.back() = "text";
  const RunResult text = run_bench(arguments);
  REQUIRE_MESSAGE(text.status == 0, text.err);
  CHECK(text.out.find("2 threads: sgemm ") != std::string::npos);
  CHECK(text.out.find("\nforward ") != std::string::npos);
}

TEST_CASE("bench rejects invalid options with one line before measuring") {
  struct Row {
    std::vector<std::string> arguments;
    int status;
    std::string message;
  };
  for (const Row& row : {
           Row{{"data/tiny-bert", "--lengths", "129"}, 2, "--lengths: got 129, the model has 128 positions"},
           {{"tests/golden/vit", "--lengths", "3"}, 2, "--lengths: got 3, images of this model have "},
           {{"data/tiny-bert", "--lengths", "0"}, 2, "--lengths"},
           {{"data/tiny-bert", "--lengths", "8,x"}, 2, "--lengths"},
           {{"data/tiny-bert", "--batch", "0"}, 2, "--batch"},
           {{"data/tiny-bert", "--repeat", "0"}, 2, "--repeat"},
           {{"data/tiny-bert", "--ids", "1,2", "--lengths", "3"},
            2,
            "--lengths and --batch choose random inputs"},
           {{"data/tiny-bert", "--text", "a", "--batch", "3"},
            2,
            "--lengths and --batch choose random inputs"},
           {{"data/tiny-bert", "--ids", "1,999999"}, 3, "999999"},
           {{"data/tiny-bert", "--stages", "backward"}, 2, "--stages"},
           {{"data/tiny-bert", "--format", "svg"}, 2, "--format"},
           {{"data/tiny-bert", "--lengths", "64", "--limit", "1000"},
            5,
            "over --limit 1000; remove write_json"},
           {{"data/tiny-bert", "--lengths", "64", "--memory", "10000"},
            5,
            "over --memory 10000; remove capture"},
           {{"data/no-such-model"}, 4, "data/no-such-model"},
       }) {
    CAPTURE(row.message);
    std::vector<std::string> arguments = row.arguments;
    arguments.insert(arguments.begin(), "bench");
    const RunResult result = run_attnctl(arguments);
    CHECK(result.status == row.status);
    CHECK(result.out.empty());
    CHECK_MESSAGE(result.err.find(row.message) != std::string::npos, result.err);
    CHECK(std::ranges::count(result.err, '\n') == 1);
  }
}

}  // namespace
}  // namespace attnctl::test
