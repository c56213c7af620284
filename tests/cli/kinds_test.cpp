#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/bytes.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::bytes_of;
using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using attnctl::test::TempDir;
using nlohmann::json;

namespace {

const std::string kModel = "tests/golden/kinds/model";

/// Writes irregular numbers as a .npy of this shape.
std::string embeddings(const TempDir& folder, const std::string& shape, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i * i % 1009));
  return folder
      .write("x.npy", attnctl::test::npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }",
                                         bytes_of(values)))
      .string();
}

json run_json(const std::vector<std::string>& arguments) {
  const RunResult result = run_attnctl(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

json patterns_of(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"analyze",   "data/tiny-llama", "--ids",    "5,6,7,8,9,10,11,12,13",
                                        "--include", "patterns",        "--format", "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_json(arguments);
}

}  // namespace

TEST_CASE("--attention: both passes agree on trained models for every kind") {
  for (const std::string model : {"data/tiny-llama", "data/tiny-bert"}) {
    for (const std::string kind : {"window:5", "block:7", "strided:6", "linear"}) {
      CAPTURE(model);
      CAPTURE(kind);
      const json document =
          run_json({"verify", model, "--attention", kind, "--tolerance", "3e-5", "--format", "json"});
      CHECK(document["ok"] == true);
      for (const json& each : document["model"]["attention"]) CHECK(each == kind);
    }
  }
}

TEST_CASE("--attention replaces the layers of --layers, which changes later layers") {
  const json plain = patterns_of({});
  const json all = patterns_of({"--attention", "window:3"});
  const json first = patterns_of({"--attention", "window:3", "--layers", "0"});
  CHECK_FALSE(plain["model"].contains("attention"));
  CHECK(first["model"]["attention"][0] == "window:3");
  CHECK(first["model"]["attention"][1] == "full");
  const auto rows = [](const json& document, std::size_t pattern) {
    return document["patterns"][pattern]["weight"];
  };
  REQUIRE(all["patterns"][0]["name"] == "0.0");
  CHECK(rows(first, 0) == rows(all, 0));
  CHECK(rows(all, 0)[8][5] == 0);
  CHECK(rows(plain, 0)[8][5] > 0);
  CHECK(rows(all, 0)[8][6] > rows(plain, 0)[8][6]);
  // Layer 1 has the same window in both runs. Its pattern differs because layer 0 is replaced in one of them.
  const json second = patterns_of({"--attention", "window:3", "--layers", "1"});
  const std::size_t of_second = static_cast<std::size_t>(plain["model"]["heads"]);
  REQUIRE(all["patterns"][of_second]["name"] == "1.0");
  CHECK(second["patterns"][0]["weight"][8] != rows(all, of_second)[8]);
}

TEST_CASE("--attention replaces the layers of --component in an encoder-decoder model") {
  const json document = run_json({"analyze", "tests/golden/t5", "--ids", "3,4,5", "--target-ids", "0,6,7",
                                  "--component", "decoder", "--layers", "0", "--attention", "window:1",
                                  "--include", "patterns", "--format", "json"});
  CHECK(document["model"]["attention"] == json::array({"full", "full", "window:1", "full"}));
  CHECK(document["patterns"][0]["name"] == "dec.0.0");
  CHECK(document["patterns"][0]["weight"] == json::parse("[[1,0,0],[0,1,0],[0,0,1]]"));
}

TEST_CASE("--attention axial: columns, then rows, in one document") {
  const TempDir folder;
  const std::string grid = embeddings(folder, "(3, 4, 6)", 72);
  const json document = run_json({"analyze", kModel, "--embeddings", grid, "--attention", "axial",
                                  "--include", "metrics,patterns,output", "--per-input", "--format", "json"});
  REQUIRE(document["inputs"].size() == 7);
  CHECK(document["inputs"][0]["id"] == "column 0");
  CHECK(document["inputs"][0]["length"] == 3);
  CHECK(document["inputs"][6]["id"] == "row 2");
  CHECK(document["inputs"][6]["length"] == 4);
  CHECK(document["heads"].size() == 14);
  CHECK(run_json({"verify", kModel, "--embeddings", grid, "--attention", "axial", "--format",
                  "json"})["ok"] == true);

  CHECK(run_attnctl({"analyze", kModel, "--embeddings", grid, "--attention", "axial", "-o",
                     (folder.path() / "out.npz").string()})
            .status == 0);
}

TEST_CASE("--attention: invalid kinds are rejected") {
  const TempDir folder;
  const std::string x = embeddings(folder, "(5, 6)", 30);
  const std::string mask =
      folder
          .write("mask.npy", attnctl::test::npy("{'descr': '|b1', 'fortran_order': False, 'shape': (5, 5), }",
                                                std::string(25, '\1')))
          .string();
  struct Row {
    std::vector<std::string> arguments;
    int status;
    std::string part;
  };
  const std::vector<Row> rows = {
      {{"analyze", kModel, "--embeddings", x, "--attention", "windw:4"},
       2,
       "unsupported \"windw:4\"; known: full, window:W, block:B, strided:S, linear, axial"},
      {{"verify", kModel, "--embeddings", x, "--attention", "block:0"}, 2, "unsupported"},
      {{"analyze", "data/tiny-llama", "--ids", "5,6", "--attention", "axial"}, 2, "--embeddings X.npy"},
      {{"analyze", "data/tiny-llama", "--embeddings", x, "--attention", "axial"},
       3,
       "unsupported by this model"},
      {{"analyze", kModel, "--embeddings", x, "--mask", mask, "--attention", "linear"}, 3, "--key-mask"},
      {{"analyze", kModel, "--embeddings", x, "--attention", "axial"}, 3, "[N, L, d], N over 1"},
      {{"analyze", "data/attention-demo.json", "--embeddings", x, "--attention", "axial"},
       3,
       "data/dna-attention.json"},
      {{"analyze", kModel, "--embeddings", x, "--mask", mask, "--attention", "axial"}, 3, "has a mask"},
      {{"experiment", "kinds", "--kinds", "window"}, 2, "known: full"},
      {{"experiment", "kinds", "--kinds", "axial"}, 2, "--grid"},
      {{"experiment", "kinds", "--grid", "16"}, 2, "ROWSxCOLUMNS"},
      {{"experiment", "kinds", "--grid", "8x8", "--n", "256"}, 2, "need one input of 64 tokens"},
      {{"experiment", "kinds", "--heads", "3"}, 2, "divisor"},
      {{"experiment", "kinds", "--ids", "1,2"}, 2, "--model"},
      {{"experiment", "kinds", "--n", "100000"}, 5, "--memory"},
  };
  for (const Row& row : rows) {
    const RunResult result = run_attnctl(row.arguments);
    CHECK(result.status == row.status);
    CHECK_MESSAGE(result.err.find(row.part) != std::string::npos, result.err);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("a configuration may set the kind of attention") {
  const TempDir folder;
  const auto weights = folder.write("w.json", R"({"config": {"model_type": "attention", "heads": 1,
      "attention": "block:2"}, "W_q": [[1, 0], [0, 1]], "W_k": [[1, 0], [0, 1]], "embedding": [[1, 0], [0, 1]]})");
  const json document = run_json(
      {"analyze", weights.string(), "--ids", "0,1,0,1,1", "--include", "patterns", "--format", "json"});
  CHECK(document["model"]["attention"] == json({"block:2"}));
  const json& rows = document["patterns"][0]["weight"];
  CHECK(rows[1][2] == 0);
  CHECK(rows[1][0] > 0);
  CHECK(rows[4] == json({0.0, 0.0, 0.0, 0.0, 1.0}));

  const auto wrong = folder.write("wrong.json", R"({"config": {"model_type": "attention", "heads": 1,
      "attention": "blocks:2"}, "W_q": [[1, 0], [0, 1]]})");
  const RunResult result = run_attnctl({"weights", wrong.string()});
  CHECK(result.status == 3);
  CHECK(result.err.find("/attention: unsupported \"blocks:2\"") != std::string::npos);
}

TEST_CASE("experiment kinds: the random input has the tokens of --grid") {
  const auto tokens = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"experiment", "kinds", "--d", "8", "--heads", "2", "--kinds", "full"});
    return run_json(more)["parameters"]["tokens"];
  };
  CHECK(tokens({"--grid", "2x3"}) == 6);
  CHECK(tokens({}) == 256);
  const RunResult large = run_attnctl({"experiment", "kinds", "--grid", "65536x65536"});
  CHECK(large.status == 2);
  CHECK_MESSAGE(large.err.find("need one input of 4294967296 tokens") != std::string::npos, large.err);
}

TEST_CASE("experiment kinds: costs equal their formulas, and distances are 0 if nothing is hidden") {
  const json document =
      run_json({"experiment", "kinds", "--n", "24", "--d", "8", "--heads", "2", "--grid", "4x6", "--kinds",
                "full,window:1,block:24,strided:4,linear", "--format", "json"});
  const json& rows = document["rows"];
  REQUIRE(rows.size() == 6);
  const std::uint64_t pair = 2 * 2 * (4 + 4);  // FLOPs per visible pair, for both heads
  CHECK(rows[0]["flops"] == 24 * 24 * pair);
  CHECK(rows[0]["pattern_bytes"] == 24 * 24 * 2 * 4);
  CHECK(rows[0]["kv_bytes_per_token"] == 2 * 8 * 4);
  CHECK(rows[0]["total_variation"] == 0);
  CHECK(rows[0]["output_error"] == 0);
  CHECK(rows[1]["flops"] == 24 * pair);
  // Query i attends only to key i of 24. The distance is 1 - a_ii, between 1 - the largest and 1 - the
  // smallest weight.
  CHECK(rows[1]["total_variation"] > 0.5);
  CHECK(rows[1]["total_variation"] < 1);
  CHECK(rows[2]["total_variation"].get<double>() < 1e-6);
  std::uint64_t strided = 0;
  for (int i = 0; i < 24; ++i) {
    for (int j = 0; j < 24; ++j) strided += std::abs(i - j) < 4 || (i - j) % 4 == 0 ? 1 : 0;
  }
  CHECK(rows[3]["flops"] == strided * pair);
  CHECK(rows[4]["kind"] == "linear");
  CHECK(rows[4]["flops"] == 2 * 2 * 2 * 24 * (4 * 4 + 4));
  CHECK(rows[4]["pattern_bytes"] == 0);
  CHECK(rows[4]["kv_bytes_per_token"] == 0);
  CHECK(rows[4]["state_bytes"] == 2 * (4 * 4 + 4) * 4);
  CHECK(rows[5]["kind"] == "axial");
  CHECK(rows[5]["flops"] == 24 * (4 + 6) * pair);
  CHECK(rows[5]["total_variation"].is_null());
  CHECK(document["summary"]["closest_to_full"] == "linear");

  const json causal = run_json({"experiment", "kinds", "--n", "24", "--d", "8", "--heads", "2", "--causal",
                                "--kinds", "full,window:24", "--format", "json"});
  CHECK(causal["rows"][0]["flops"] == 24 * 25 / 2 * pair);
  CHECK(causal["rows"][1]["total_variation"] == 0);
  const json layer = run_json({"experiment", "kinds", "--model", "data/tiny-llama", "--ids", "5,6,7,8,9,10",
                               "--layer", "1", "--kinds", "window:2", "--format", "json"});
  CHECK(layer["parameters"]["causal"] == true);
  CHECK(layer["rows"][0]["output_error"] > 0);
}
