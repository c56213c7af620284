#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using nlohmann::json;

namespace {

RunResult analyze(const std::string& model, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"analyze", model};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_attnctl(arguments);
}

json document(const std::string& model, const std::vector<std::string>& more) {
  const RunResult result = analyze(model, more);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json parsed = json::parse(result.out);
  const json schema = json::parse(attnctl::cli::schema_text("analysis"));
  for (const std::string& breach : attnctl::test::schema_breaches(schema, parsed)) FAIL_CHECK(breach);
  return parsed;
}

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

const std::vector<std::string> kAll{"--ids", "5,6,7,8,9", "--ids",
                                    "3",     "--include", "rollout,flow,contributions,mixing"};

TEST_CASE("mixing has all sections for every model") {
  for (const std::string model : {"tests/golden/llama", "tests/golden/bert", "tests/golden/gpt2",
                                  "tests/golden/albert", "data/attention-demo.json"}) {
    CAPTURE(model);
    const json all = document(model, kAll);
    const std::size_t layers = all.at("model").at("layers");
    const std::size_t heads = all.at("model").at("heads");
    CHECK(all.at("contributions").size() == 2 * layers * heads);
    CHECK(all.at("mixing").size() == layers * 6);
    CHECK(all.at("flow").size() == 6);
    CHECK(all.at("rollout").size() == 6);
    CHECK(all.at("rollout_last_layer").size() == 6);
    for (const json& row : all.at("output_rank"))
      CHECK((row.at("rank").is_null() == (row.at("output") == "removed")));
    // An input of one token has a mixing ratio of 0.
    const json& single = all.at("mixing").back();
    CHECK(single.at("input") == "1");
    CHECK(single.at("ratio") == doctest::Approx(0).epsilon(1e-6));
    CHECK(all.at("flow").back().at("weight") == json::array({1.0}));
  }
}

TEST_CASE("rollout and flow from one token are the row of all positions") {
  const json all = document("data/tiny-llama", kAll);
  const json one =
      document("data/tiny-llama", {"--ids", "5,6,7,8,9", "--include", "rollout,flow", "--rollout-from", "3"});
  for (const char* section : {"rollout", "rollout_last_layer", "flow"}) {
    CAPTURE(section);
    REQUIRE(one.at(section).size() == 1);
    CHECK(one.at(section)[0] == all.at(section)[3]);
  }
  const json other = document("data/tiny-llama", {"--ids", "5,6,7,8,9", "--include", "rollout",
                                                  "--rollout-from", "3", "--rollout-residual", "1"});
  CHECK(other.at("rollout")[0].at("weight") == json::array({0.0, 0.0, 0.0, 1.0, 0.0}));
}

TEST_CASE("--weighting norm changes only the shown patterns") {
  const std::vector<std::string> given{"--ids",  "5,6,7,8,9", "--include", "metrics,patterns,rollout",
                                       "--from", "3",         "--to",      "0"};
  const auto with = [&](const std::string& weighting) {
    std::vector<std::string> arguments = given;
    if (!weighting.empty()) arguments.insert(arguments.end(), {"--weighting", weighting});
    return document("data/tiny-bert", arguments);
  };
  const json weights = with("");
  const json norms = with("norm");
  const json rows = with("norm-row");
  CHECK_FALSE(weights.contains("weighting"));
  CHECK(weights == with("weights"));
  CHECK(norms.at("weighting") == "norm");
  CHECK(rows.at("weighting") == "norm-row");
  CHECK(norms.at("heads") == weights.at("heads"));
  CHECK(norms.at("rollout") == weights.at("rollout"));
  REQUIRE(norms.at("patterns").size() == weights.at("patterns").size());
  for (std::size_t i = 0; i < norms.at("patterns").size(); ++i) {
    const json& row = norms.at("patterns")[i].at("weight")[3];
    CHECK(row != weights.at("patterns")[i].at("weight")[3]);
    CHECK(norms.at("attention_from")[i].at("to")[0].at("weight") == row[0]);
    double sum = 0;
    for (const json& value : rows.at("patterns")[i].at("weight")[3]) sum += value.get<double>();
    CHECK(sum == doctest::Approx(1).epsilon(1e-6));
  }
  // Norms are pooled like weights: the norm of a word is the sum over its pieces.
  const json words = document("data/tiny-bert", {"--text", "The mechanic fixed it.", "--include", "patterns",
                                                 "--weighting", "norm", "--by-word"});
  CHECK(words.at("inputs")[0].at("unit") == "word");
}

TEST_CASE("tables, arrays and pictures of mixing") {
  const attnctl::test::TempDir directory;
  const std::filesystem::path tables = directory.path() / "tables";
  CHECK(analyze("data/tiny-bert", {"--ids", "5,6,7,8,9", "--include", "contributions,mixing", "--heads",
                                   "0.1,2.3", "--format", "csv", "-o", tables.string()})
            .status == 0);
  CHECK(first_line(tables / "contributions.csv") ==
        "input,component,layer,head,name,rows,norm,norm_share,cosine,share,explained,whole_norm,stream_norm");
  CHECK(first_line(tables / "output_rank.csv") == "input,component,layer,output,rank,full_rank,change");
  CHECK(first_line(tables / "mixing.csv") == "input,component,layer,position,token,mix,keep,ratio");
  const std::filesystem::path npz = directory.path() / "all.npz";
  CHECK(analyze("data/tiny-bert", {"--ids", "5,6,7,8,9", "--include", "rollout,flow,contributions,mixing",
                                   "--heads", "0.1,2.3", "--rollout-from", "2", "-o", npz.string()})
            .status == 0);
  CHECK(std::filesystem::file_size(npz) > 1000);
  const RunResult picture = analyze("data/tiny-bert", {"--ids", "5,6,7,8,9", "--include", "flow", "--format",
                                                       "svg", "--rollout-from", "2"});
  CHECK(picture.status == 0);
  CHECK(picture.out.find("Attention flow") != std::string::npos);
  const json without =
      document("data/tiny-bert", {"--ids", "5,6", "--include", "contributions", "--output-rank", "none"});
  CHECK_FALSE(without.contains("output_rank"));
}

TEST_CASE("mixing: unsupported requests are rejected") {
  struct Refusal {
    int status;
    std::vector<std::string> arguments;
    std::string says;
  };
  std::string long_input = "5";
  for (int i = 0; i < 128; ++i) long_input += ",5";
  const std::vector<Refusal> refusals{
      {5, {"--ids", long_input, "--include", "flow"}, "at most 128"},
      {2, {"--ids", "5,6", "--include", "flow", "--by-word"}, "flow"},
      {2, {"--ids", "5,6", "--include", "contributions", "--output-rank", "4,0"}, "--output-rank"},
      {2, {"--ids", "5,6", "--include", "contributions", "--output-rank", "4,"}, "--output-rank"},
      {2, {"--ids", "5,6", "--include", "rollout", "--rollout-residual", "1.5"}, "--rollout-residual"},
      {2, {"--ids", "5,6", "--include", "rollout", "--rollout-from", "9"}, "none of the inputs"},
      {2, {"--ids", "5,6", "--rollout-from", "1"}, "--rollout-from: needs --include rollout or flow"},
      {2, {"--ids", "5,6", "--weighting", "norms"}, "--weighting"},
      {2, {"--ids", "5,6", "--show", "0.1", "--weighting", "norm"}, "norm-row"},
      {2, {"--ids", "5,6", "--include", "flow", "--format", "csv", "-o", "none"}, "flow has no table"}};
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.says);
    const RunResult result = analyze("data/tiny-llama", refusal.arguments);
    CHECK(result.status == refusal.status);
    CHECK_MESSAGE(result.err.find(refusal.says) != std::string::npos, result.err);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("mixing needs values, and ratios need an output as wide as the stream") {
  const attnctl::test::TempDir directory;
  const std::string no_values =
      directory.write("no_values.json", R"({"config": {"model_type": "attention", "heads": 1},
        "W_q": [[1, 0], [0, 1]], "W_k": [[1, 0], [0, 1]], "embedding": [[1, 2], [3, 4]]})");
  const std::string wide = directory.write("wide.json", R"({"config": {"model_type": "attention", "heads": 1},
        "W_q": [[1, 0], [0, 1]], "W_k": [[1, 0], [0, 1]], "W_v": [[1, 0, 1], [0, 1, 1]],
        "embedding": [[1, 2], [3, 4]]})");
  for (const std::string what : {"contributions", "mixing"}) {
    const RunResult result = analyze(no_values, {"--ids", "0,1", "--include", what});
    CHECK(result.status == 3);
    CHECK_MESSAGE(result.err.find("W_v") != std::string::npos, result.err);
  }
  CHECK(analyze(no_values, {"--ids", "0,1", "--weighting", "norm"}).status == 3);
  CHECK(analyze(wide, {"--ids", "0,1", "--include", "mixing"}).status == 3);
  const json side_by_side = document(wide, {"--ids", "0,1", "--include", "contributions"});
  CHECK(side_by_side.at("contributions")[0].at("explained") == 1.0);
  CHECK(side_by_side.at("output_rank").empty());
}

}  // namespace
