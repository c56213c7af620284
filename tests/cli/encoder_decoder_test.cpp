#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files/input_file.hpp"
#include "support/golden.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::Golden;
using attnctl::test::GoldenArray;
using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using attnctl::test::TempDir;

namespace {

const std::string kModel = "tests/golden/bart";  // 2 + 1 layers with 3 heads each

std::string list_of(const std::vector<std::int64_t>& ids) {
  std::string list;
  for (const std::int64_t id : ids) list += (list.empty() ? "" : ",") + std::to_string(id);
  return list;
}

double largest_difference(const GoldenArray& got, const GoldenArray& want) {
  REQUIRE(got.shape == want.shape);
  double worst = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i)
    worst = std::max(worst, std::abs(got.values[i] - want.values[i]));
  return worst;
}

nlohmann::json document_of(const std::vector<std::string>& arguments) {
  const RunResult run = run_attnctl(arguments);
  REQUIRE_MESSAGE(run.status == 0, run.err);
  return nlohmann::json::parse(run.out);
}

}  // namespace

TEST_CASE("the NPZ of an encoder and a decoder has the arrays of each component, equal to transformers'") {
  const Golden golden(kModel);
  const TempDir folder;
  const RunResult run =
      run_attnctl({"analyze", kModel, "--ids", list_of(golden.integers("ids_1")), "--target-ids",
                   list_of(golden.integers("target_ids_1")), "--include", "patterns,z,output,logits,weights",
                   "-o", (folder.path() / "golden.npz").string()});
  REQUIRE_MESSAGE(run.status == 0, run.err);
  const Golden got(folder.path());
  for (const std::string component : {"enc", "dec", "cross"}) {
    CAPTURE(component);
    for (const std::string kind : {"pattern", "z", "output"}) {
      CHECK(largest_difference(got.array(fmt::format("{}_{}_0", component, kind)),
                               golden.array(fmt::format("{}_{}_1", kind, component))) < 1e-5);
    }
    for (const std::string circuit : {"qk", "ov"}) {
      CHECK(largest_difference(got.array(fmt::format("{}_{}_similarity", component, circuit)),
                               golden.array(fmt::format("{}_similarity_{}", circuit, component))) < 1e-5);
    }
    CHECK(got.integers(component + "_heads") == std::vector<std::int64_t>{0, 1, 2});
  }
  CHECK(got.integers("enc_layers") == std::vector<std::int64_t>{0, 1});
  CHECK(got.integers("cross_layers") == std::vector<std::int64_t>{0});
  CHECK(largest_difference(got.array("logits_0"), golden.array("logits_1")) < 1e-5);
  CHECK(got.integers("target_ids_0") == golden.integers("target_ids_1"));
}

TEST_CASE("records of an encoder and a decoder name their component") {
  const auto document =
      document_of({"analyze", kModel, "--ids", "5,9,12,4", "--target-ids", "2,7", "--format", "json"});
  std::vector<std::string> names;
  for (const auto& head : document.at("heads")) {
    names.push_back(head.at("name"));
    CHECK(names.back().starts_with(head.at("component").get<std::string>() + "."));
    const bool cross = head.at("component") == "cross";
    CHECK(head.at("previous_token").is_null() == cross);
    CHECK(head.at("best_offset_share").is_null() == cross);
    CHECK_FALSE(head.at("entropy").is_null());
    CHECK_FALSE(head.at("distance").is_null());
    CHECK(head.at("rows") == (head.at("component") == "enc" ? 4 : 2));
  }
  CHECK(names == std::vector<std::string>{"enc.0.0", "enc.0.1", "enc.0.2", "enc.1.0", "enc.1.1", "enc.1.2",
                                          "dec.0.0", "dec.0.1", "dec.0.2", "cross.0.0", "cross.0.1",
                                          "cross.0.2"});
  for (const auto& pattern : document.at("patterns")) {
    const std::string head = pattern.at("name");
    CHECK(pattern.at("queries") == (head.starts_with("enc") ? 4 : 2));
    CHECK(pattern.at("keys") == (head.starts_with("dec") ? 2 : 4));
  }
  CHECK(document.at("subspace_similarity").at(2).at("component") == "dec");
  CHECK(document.at("inputs").at(0).at("target_ids") == nlohmann::json{2, 7});
  CHECK(document.at("model").at("layers") == 3);
}

TEST_CASE("without a target only the encoder runs, --component and --heads select") {
  const auto encoder =
      document_of({"analyze", kModel, "--ids", "5,9", "--include", "metrics", "--format", "json"});
  CHECK(encoder.at("heads").size() == 6);
  const auto picked = document_of({"analyze", kModel, "--ids", "5,9", "--target-ids", "2", "--heads",
                                   "cross.0.2,enc.1.0", "--include", "metrics", "--format", "json"});
  CHECK(picked.at("heads").size() == 2);
  CHECK(picked.at("heads").at(1).at("name") == "cross.0.2");
  CHECK(document_of({"analyze", kModel, "--ids", "5,9", "--target-ids", "2", "--heads", "cross.L0H2,enc.1:0",
                     "--include", "metrics", "--format", "json"}) == picked);
  const auto weights = document_of({"weights", kModel, "--component", "decoder,cross", "--format", "json"});
  CHECK(weights.at("heads").size() == 6);
  const RunResult csv = run_attnctl(
      {"analyze", kModel, "--ids", "5,9", "--target-ids", "2", "--format", "csv", "--table", "patterns"});
  CHECK(csv.out.find("0,cross,0,2,cross.0.2,0,1,") != std::string::npos);
}

TEST_CASE("invalid requests to an encoder and a decoder are rejected") {
  struct Row {
    std::vector<std::string> arguments;
    int status;
    std::string part;
  };
  const std::vector<Row> rows = {
      {{"--component", "cross"}, 2, "--target-ids"},
      {{"--heads", "dec.0.0"}, 2, "--target-ids"},
      {{"--heads", "0.0"}, 2, "COMPONENT.LAYER.HEAD"},
      {{"--heads", "enc"}, 2, "COMPONENT.LAYER.HEAD"},
      {{"--component", "both"}, 2, "encoder, decoder or cross"},
      {{"--component", "decode"}, 2, "(did you mean \"decoder\"?)"},
      {{"--target-ids", "2", "--target-ids", "3"}, 2, "2 targets for 1 input;"},
      {{"--target-ids", "999"}, 3, "the target of input 0"},
      {{"--include", "logits"}, 3, "give a target"},
      {{"--include", "rollout"}, 2, "unsupported"},
      {{"--target-ids", "2", "--include", "map"}, 2, "one component at a time"},
      {{"--target-ids", "2", "--from", "0"}, 2, "one component at a time"},
      {{"--by-word"}, 2, "unsupported"},
      {{"--mask", "causal"}, 3, "do not support score masks"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> arguments = {"analyze", kModel, "--ids", "5,9,12", "--format", "json"};
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    const RunResult run = run_attnctl(arguments);
    CAPTURE(run.err);
    CHECK(run.status == row.status);
    CHECK(run.err.find(row.part) != std::string::npos);
  }
  const RunResult other = run_attnctl({"analyze", "data/tiny-llama", "--ids", "5", "--target-ids", "2"});
  CHECK(other.status == 2);
  CHECK(run_attnctl({"analyze", "data/tiny-llama", "--ids", "5", "--component", "encoder"}).status == 2);
}

TEST_CASE("a target text is tokenized and begins with the configuration's start token") {
  const TempDir folder;
  const std::filesystem::path here = folder.path();
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(std::filesystem::path(kModel) / file, here / file);
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\n";
  for (int i = 8; i < 37; ++i) vocabulary += fmt::format("w{}\n", i);
  folder.write("vocab.txt", vocabulary);
  const auto document = document_of({"analyze", here.string(), "--text", "the cat sat", "--target-text",
                                     "cat sat", "--include", "metrics", "--format", "json"});
  const auto& input = document.at("inputs").at(0);
  CHECK(input.at("ids") == nlohmann::json{2, 5, 6, 7, 3});
  const std::int64_t start =
      nlohmann::json::parse(attnctl::read_file(here / "config.json", 1U << 20U)).at("decoder_start_token_id");
  CHECK(input.at("target_ids") == nlohmann::json{start, 2, 6, 7, 3});
  CHECK(input.at("target_text") == "cat sat");
}

TEST_CASE("verify compares the three components with float64 and with a file") {
  const auto document = document_of({"verify", kModel, "--format", "json"});
  CHECK(document.at("ok") == true);
  std::vector<std::string> components;
  for (const auto& row : document.at("comparisons")) {
    if (row.at("array") == "pattern") components.push_back(row.at("component"));
  }
  CHECK(components == std::vector<std::string>{"enc", "enc", "dec", "cross"});
  const TempDir folder;
  const std::string file = (folder.path() / "own.npz").string();
  REQUIRE(run_attnctl({"analyze", kModel, "--ids", "5,9", "--target-ids", "2,3", "-o", file}).status == 0);
  CHECK(run_attnctl({"verify", kModel, "--against", file}).status == 0);
}

TEST_CASE("experiment distance accepts a target that is longer than the input") {
  std::string target = "2";
  for (int i = 0; i < 299; ++i) target += ",7";
  const auto document = document_of({"experiment", "distance", "--model", "tests/golden/t5", "--ids", "3,4",
                                     "--target-ids", target, "--format", "json"});
  std::map<std::string, double> sums;  // by component and layer
  for (const auto& row : document["rows"])
    if (row["pairs"] != 0)
      sums[row["component"].get<std::string>() + row["layer"].dump()] += row["share"].get<double>();
  CHECK(sums.size() == 3);
  CHECK(sums.contains("dec0"));
  CHECK_FALSE(sums.contains("cross0"));
  CHECK(document["warnings"].at(0).at("code") == "cross_left_out");
  for (const auto& sum : sums) CHECK(sum.second == doctest::Approx(1));
  const RunResult cross = run_attnctl({"experiment", "distance", "--model", "tests/golden/t5", "--ids", "3,4",
                                       "--target-ids", "2", "--component", "cross"});
  CHECK(cross.status == 2);
  CHECK_MESSAGE(cross.err.find("got only heads of cross-attention") != std::string::npos, cross.err);
}
