#include <map>
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

const std::string kPlanted = "tests/golden/sinks/planted/model";
const std::string kPlantedIds = "0,5,12,9,19,7,2,23,11,14,3,17,8,21,6,10";

json checked_document(const Words& words, const char* schema) {
  const RunResult result = run_attnctl(words);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  json document = json::parse(result.out);
  CHECK(schema_breaches(json::parse(cli::schema_text(schema)), document) == Words{});
  return document;
}

TEST_CASE("analyze: sinks and activations match the schema for every kind of model") {
  const std::vector<Words> models = {
      {"tests/golden/bert", "--ids", "2,3,4"},
      {"tests/golden/mixtral", "--ids", "2,3,4"},
      {"tests/golden/bart", "--ids", "2,3,4", "--target-ids", "1,2", "--component", "encoder"},
      {"tests/golden/bart", "--ids", "2,3,4", "--target-ids", "1,2", "--component", "cross"}};
  for (const Words& model : models) {
    CAPTURE(model.front());
    Words words = {"analyze"};
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), {"--include", "sinks,activations"});
    const json document = checked_document(words, "analysis");
    std::set<int> layers;
    for (const json& sink : document["sinks"]) {
      layers.insert(sink["layer"].get<int>());
      CHECK(sink["first_weight"].is_number());
      CHECK(sink["write_ratio"].is_number());
    }
    CHECK(document["sinks"].size() % layers.size() == 0);
    CHECK(document["activations"].size() == 3 * layers.size());
    CHECK(document["sink_rates"].size() == 2);
  }
}

TEST_CASE("analyze: heads of a model without values have sinks, but no write ratio") {
  const TempDir folder;
  const json weights = {{"config", {{"model_type", "attention"}, {"heads", 1}, {"vocab", {"a", "b", "c"}}}},
                        {"W_q", {{1, 0}, {0, 1}}},
                        {"W_k", {{1, 0}, {0, 1}}},
                        {"embedding", {{1, 0}, {3, 0}, {0, 0}}}};
  const std::string model = folder.write("qk.json", weights.dump()).string();
  const json document =
      checked_document({"analyze", model, "--ids", "0,1,2", "--include", "sinks,activations"}, "analysis");
  REQUIRE(document["sinks"].size() == 1);
  CHECK(document["sinks"][0]["position"] == 1);
  CHECK(document["sinks"][0]["token"] == "b");
  CHECK(document["sinks"][0]["write_ratio"].is_null());
  CHECK(document["sinks"][0]["idle"].is_null());
  CHECK(document["sink_rates"][0]["idle_heads"] == 0);
  CHECK(document["activations"][0]["value"] == 3);
  CHECK(document["activations"][0]["median"] == 0);  // of 1, 0, 3, 0, 0, 0
  CHECK(document["activations"][0]["ratio"].is_null());
}

TEST_CASE("analyze: --sink-epsilon and --idle-ratio move the thresholds") {
  const auto rates = [](const Words& more) {
    Words words = {"analyze", kPlanted, "--ids", kPlantedIds, "--include", "sinks"};
    words.insert(words.end(), more.begin(), more.end());
    return checked_document(words, "analysis")["sink_rates"][0];
  };
  CHECK(rates({})["sink_rate"] == 0.125);
  CHECK(rates({})["idle_heads"] == 1);
  CHECK(rates({"--sink-epsilon", "0.99"})["sink_rate"] == 0);
  CHECK(rates({"--sink-epsilon", "0"})["sink_rate"] == 1);
  CHECK(rates({"--idle-ratio", "0"})["idle_heads"] == 0);
  CHECK(rates({"--idle-ratio", "10"})["idle_heads"] == 8);
  CHECK(rates({"--sink-epsilon", "0.5"})["sink_epsilon"] == 0.5);
  for (const Words& bad : {Words{"--sink-epsilon", "1.5"}, Words{"--idle-ratio", "-1"}}) {
    Words words = {"analyze", kPlanted, "--ids", kPlantedIds, "--include", "sinks"};
    words.insert(words.end(), bad.begin(), bad.end());
    const RunResult result = run_attnctl(words);
    CHECK(result.status == 2);
    CHECK(result.err.find(bad[0]) != std::string::npos);
  }
}

TEST_CASE("analyze: the text of sinks and activations names what is found") {
  const RunResult result = run_attnctl(
      {"analyze", kPlanted, "--ids", kPlantedIds, "--include", "sinks,activations", "--format", "text"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(result.out.find("Sink rate: share of heads whose weight on key 0 is above 0.3") != std::string::npos);
  CHECK(result.out.find("Massive activations: 1 of these values, in layer 1\n") != std::string::npos);
  CHECK(result.out.find("Short input") == std::string::npos);  // even weights: 0.21
  const RunResult small = run_attnctl(
      {"analyze", kPlanted, "--ids", "9,12,19", "--include", "sinks,activations", "--format", "text"});
  CHECK(small.out.find("Short input") != std::string::npos);  // even weights: 0.61
  CHECK(small.out.find("Massive activations: none") != std::string::npos);
}

TEST_CASE("analyze: sinks and activations have pictures") {
  const std::map<std::string, std::string> titles = {
      {"sinks", "Heads: sinks first weight"}, {"activations", "Largest Values of the Residual Stream"}};
  for (const auto& title : titles) {
    CAPTURE(title.first);
    const RunResult result = run_attnctl({"analyze", kPlanted, "--ids", kPlantedIds, "--ids", "1,2,3",
                                          "--include", title.first, "--format", "svg"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(result.out.find(title.second) != std::string::npos);
  }
}

TEST_CASE("study and merge: the sink rate is the share of heads with a large mean weight on position 0") {
  for (const std::string model : {"data/tiny-llama", "data/tiny-bert"}) {
    CAPTURE(model);
    const TempDir folder;
    const std::string state = (folder.path() / "all.state").string();
    const std::string input = model + "/sentences.jsonl";
    const json study = checked_document(
        {"study", model, "--input", input, "--measures", "special", "--state", state}, "study");
    // Every query of these models may attend to position 0, so that the metric first_token is the same mean.
    const json heads =
        checked_document({"analyze", model, "--input", input, "--include", "metrics"}, "analysis")["heads"];
    for (const double epsilon : {0.3, 0.1}) {
      CAPTURE(epsilon);
      Words want;
      for (const json& head : heads)
        if (head["first_token"].get<double>() > epsilon) want.push_back(head["name"]);
      if (epsilon == 0.1) REQUIRE(!want.empty());
      REQUIRE(want.size() < heads.size());
      const json merged =
          checked_document({"merge", state, "--sink-epsilon", std::to_string(epsilon)}, "study");
      const json& sinks = merged["summary"]["sinks"];
      CHECK(sinks["names"] == json(want));
      CHECK(sinks["heads"] == heads.size());
      CHECK(sinks["rate"].get<double>() ==
            doctest::Approx(static_cast<double>(want.size()) / static_cast<double>(heads.size())));
      if (epsilon == 0.3) CHECK(study["summary"]["sinks"] == sinks);
    }
    const RunResult text = run_attnctl({"merge", state, "--format", "text"});
    CHECK(text.out.find("Sink rate: ") != std::string::npos);
  }
  const json none = checked_document(
      {"study", "data/tiny-llama", "--input", "data/tiny-llama/sentences.jsonl", "--measures", "distance"},
      "study");
  CHECK(!none["summary"].contains("sinks"));
}

}  // namespace
}  // namespace attnctl::test
