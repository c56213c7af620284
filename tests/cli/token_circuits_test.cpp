#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

json token_document(const Words& words) {
  const RunResult result = run_attnctl(words);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  json document = json::parse(result.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("analysis")), document) == Words{});
  return document;
}

/// A model with one head whose values are the embeddings of its tokens, times a factor.
json echo_model(double factor) {
  json identity = json::array(), scaled = json::array();
  for (int r = 0; r < 8; ++r) {
    json row = json::array(), times = json::array();
    for (int c = 0; c < 8; ++c) {
      row.push_back(r == c ? 1.0 : 0.0);
      times.push_back(r == c ? factor : 0.0);
    }
    identity.push_back(row);
    scaled.push_back(times);
  }
  return {{"config",
           {{"model_type", "attention"}, {"heads", 1}, {"vocab", {"a", "b", "c", "d", "1", "2", "3", "4"}}}},
          {"W_q", identity},
          {"W_k", identity},
          {"W_v", scaled},
          {"W_o", identity},
          {"embedding", identity}};
}

TEST_CASE("weights: token circuits match the schema, and special tokens are left out") {
  for (const char* model : {"data/tiny-bert", "data/tiny-llama", "tests/golden/albert"}) {
    CAPTURE(model);
    const json document = token_document({"weights", model, "--include", "token_circuits", "--top", "3"});
    const std::size_t heads = document["token_circuits"].size();
    CHECK(document["token_pairs"].size() == 6 * heads);
    for (const json& pair : document["token_pairs"]) {
      CHECK(pair["from"] != "[CLS]");
      CHECK(pair["to"] != "[MASK]");
    }
  }
}

TEST_CASE("weights: without an output head, only QK has pairs of tokens") {
  const TempDir folder;
  const std::string path = folder.write("echo.json", echo_model(1).dump()).string();
  const json document = token_document({"weights", path, "--include", "token_circuits"});
  CHECK(document["token_circuits"][0]["copied"].is_null());
  CHECK(document["token_circuits"][0]["successor_null"].is_null());
  CHECK(document["warnings"][0]["code"] == "no_copying");
  REQUIRE(document["token_pairs"].size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    const json& pair = document["token_pairs"][i];
    CHECK(pair["circuit"] == "qk");
    CHECK(pair["from"] == pair["to"]);  // the identity
    CHECK(pair["value"] == 1);
  }
}

TEST_CASE("weights: a model without a token embedding has no token circuits") {
  const TempDir folder;
  json model = echo_model(1);
  model.erase("embedding");
  model["config"].erase("vocab");
  const std::string path = folder.write("bare.json", model.dump()).string();
  const RunResult result = run_attnctl({"weights", path, "--include", "token_circuits"});
  CHECK(result.status == 3);
  CHECK(result.err.find("no token embedding") != std::string::npos);
}

}  // namespace
}  // namespace attnctl::test
