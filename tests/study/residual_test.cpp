#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "study/measure.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::study {
namespace {

using nlohmann::json;
using test::run_attnctl;
using Words = std::vector<std::string>;

const Words kPlanted = {"tests/golden/sinks/planted/model", "--input",
                        "tests/golden/study/residual-planted.jsonl", "--batch-tokens", "40"};

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string output_of(const Words& words) {
  const test::RunResult result = run_attnctl(words);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return result.out;
}

/// Returns the study of a model, and checks it against the schema.
json residual_of(const Words& model, const Words& more = {}) {
  json document = json::parse(output_of(
      joined(joined({"study"}, model), joined({"--measures", "residual", "--format", "json"}, more))));
  CHECK(test::schema_breaches(json::parse(cli::schema_text("study")), document) == Words{});
  return document;
}

TEST_CASE("write ratios and massive activations of a study are those of analyze over the same sentences") {
  const test::TempDir folder;
  const std::string ids = folder.write("ids.jsonl", "{\"ids\": [2, 3, 4]}\n{\"ids\": [5, 6]}\n").string();
  const std::vector<Words> models = {
      {"data/tiny-bert", "--input", "data/tiny-bert/sentences.jsonl"},
      {"data/tiny-llama", "--input", "data/tiny-llama/sentences.jsonl"},
      {"tests/golden/bart", "--input", ids, "--component", "encoder"},
      {"tests/golden/sinks/planted/model", "--input", "tests/golden/study/residual-planted.jsonl"}};
  for (const Words& model : models) {
    CAPTURE(model.front());
    const json study = residual_of(model);
    const json analyze = json::parse(output_of(
        joined(joined({"analyze"}, model), {"--include", "sinks,activations", "--format", "json"})));
    // Each position of these models can attend to a key, and no stream is 0.
    std::map<std::string, std::pair<double, std::uint64_t>> sums;
    for (const json& sink : analyze["sinks"]) {
      auto& [sum, rows] = sums[sink["name"]];
      sum += sink["write_ratio"].get<double>() * sink["rows"].get<double>();
      rows += sink["rows"].get<std::uint64_t>();
    }
    REQUIRE(study["writes"].size() == sums.size());
    for (const json& head : study["writes"]) {
      const auto& [sum, rows] = sums.at(head["name"]);
      CHECK(head["count"] == rows);
      CHECK(head["write_ratio"].get<double>() ==
            doctest::Approx(sum / static_cast<double>(rows)).epsilon(1e-6));
      CHECK(head["low"].get<double>() <= head["write_ratio"].get<double>());
      CHECK(head["write_ratio"].get<double>() <= head["high"].get<double>());
    }
    std::map<int, double> largest;
    std::map<int, int> sentences, massive;
    for (const json& value : analyze["activations"]) {
      if (value["rank"] != 1) continue;
      const int layer = value["layer"];
      largest[layer] = std::max(largest[layer], value["ratio"].get<double>());
      ++sentences[layer];
      massive[layer] += value["massive"].get<bool>() ? 1 : 0;
    }
    REQUIRE(study["massive"].size() == largest.size());
    for (const json& layer : study["massive"]) {
      const int index = layer["layer"];
      CHECK(layer["component"] == analyze["activations"][0]["component"]);
      CHECK(layer["sentences"] == sentences[index]);
      CHECK(layer["massive_sentences"] == massive[index]);
      CHECK(layer["largest_ratio"].get<double>() == doctest::Approx(largest[index]).epsilon(1e-6));
    }
  }
}

TEST_CASE("selected heads have the write ratios that they have among all heads") {
  const Words model = {"data/tiny-llama", "--input", "data/tiny-llama/sentences.jsonl"};
  const json all = residual_of(model);
  const json some = residual_of(model, {"--heads", "1.2,3.0"});
  REQUIRE(some["writes"].size() == 2);
  CHECK(some["writes"][0] == all["writes"][6]);
  CHECK(some["writes"][1] == all["writes"][12]);
  CHECK(some["massive"] == json::array({all["massive"][1], all["massive"][3]}));
}

TEST_CASE("a study finds the planted idle head and the planted massive activation") {
  const test::TempDir folder;
  const std::string state = (folder.path() / "all.state").string();
  const json study = residual_of(kPlanted, {"--state", state});
  CHECK(study["summary"]["idle"] ==
        json{{"ratio", 0.01}, {"heads", 8}, {"count", 1}, {"names", json::array({"0.1"})}});
  for (const json& head : study["writes"]) CHECK(head["idle"] == (head["name"] == "0.1"));
  CHECK(study["massive"][0]["massive_positions"] == 0);
  CHECK(study["massive"][0]["first_share"].is_null());
  std::size_t planted = 0, first = 0;  // the massive activation is at token 0
  const std::string corpus = test::slurp(ATTNCTL_SOURCE_DIR "/tests/golden/study/residual-planted.jsonl");
  for (const std::string_view line : split(corpus, '\n')) {
    if (line.empty()) continue;
    const json ids = json::parse(line)["ids"];
    for (std::size_t i = 0; i < ids.size(); ++i) planted += ids[i] == 0 ? 1 : 0;
    first += ids[0] == 0 ? 1 : 0;
  }
  CHECK(study["massive"][1]["massive_positions"] == planted);
  CHECK(study["massive"][1]["first_share"].get<double>() ==
        doctest::Approx(static_cast<double>(first) / static_cast<double>(planted)));
  CHECK(study["massive_dimensions"] ==
        json::array({{{"component", nullptr}, {"layer", 1}, {"dimension", 7}, {"count", planted}}}));

  const json merged = json::parse(output_of({"merge", state, "--idle-ratio", "10", "--format", "json"}));
  CHECK(merged["summary"]["idle"]["count"] == 8);
  CHECK(merged["writes"][2]["idle"] == true);
  CHECK(merged["massive"] == study["massive"]);
  const std::string text = output_of({"merge", state, "--format", "text"});
  CHECK(text.find("Idle heads: 1 of 8 heads write less than 0.01 of the residual stream: 0.1\n") !=
        std::string::npos);
  CHECK(text.find("7 (" + std::to_string(planted) + ")") != std::string::npos);
  const test::RunResult bad = run_attnctl({"merge", state, "--idle-ratio", "-1"});
  CHECK(bad.status == 2);
  CHECK(bad.err.find("--idle-ratio") != std::string::npos);
}

TEST_CASE("threads, shards and their order do not change a byte of the measure residual") {
  const test::TempDir folder;
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  const Words study =
      joined(joined({"study"}, kPlanted), {"--measures", "residual", "--format", "json", "--digits", "17"});
  const std::string whole = output_of(joined(study, {"--threads", "1", "--state", path("whole.state")}));
  CHECK(output_of(joined(study, {"--threads", "3"})) == whole);
  const Words shards = {path("1.state"), path("2.state"), path("3.state")};
  for (std::size_t i = 0; i < shards.size(); ++i)
    output_of(joined(joined({"study"}, kPlanted), {"--measures", "residual", "--shard",
                                                   std::to_string(i + 1) + "/3", "--state", shards[i]}));
  for (const Words& order :
       {Words{shards[0], shards[1], shards[2]}, Words{shards[2], shards[0], shards[1]}}) {
    const std::string merged = path("merged.state");
    CHECK(output_of(joined(joined({"merge"}, order),
                           {"--state", merged, "--format", "json", "--digits", "17"})) == whole);
    CHECK(test::slurp(merged) == test::slurp(path("whole.state")));
  }
}

TEST_CASE("positions with the stream 0 and sentences with too large ratios are left out of write ratios") {
  const test::TempDir folder;
  const std::string input = folder.write("ids.jsonl", "{\"ids\": [0, 1, 2]}\n{\"ids\": [1, 0]}\n").string();
  const auto run = [&](double value) {
    const json weights = {{"config", {{"model_type", "attention"}, {"heads", 1}, {"vocab", {"a", "b", "c"}}}},
                          {"W_q", {{1, 0}, {0, 1}}},
                          {"W_k", {{1, 0}, {0, 1}}},
                          {"W_v", {{value, 0}, {0, value}}},
                          {"W_o", {{1, 0}, {0, 1}}},
                          {"embedding", {{1, 0}, {3, 0}, {0, 0}}}};
    return residual_of({folder.write("model.json", weights.dump()).string(), "--input", input});
  };
  const json tame = run(1);
  CHECK(tame["writes"][0]["count"] == 4);
  CHECK(tame["massive"][0]["sentences"] == 2);
  for (const double value : {1e8, 1e38}) {
    const json large = run(value);
    CHECK(large["writes"][0]["count"] == 0);
    for (const char* const column : {"write_ratio", "low", "high", "idle"})
      CHECK(large["writes"][0][column].is_null());
    CHECK_FALSE(large["summary"].contains("idle"));
  }
}

/// The numbers in the state of the measure for one head and its layer.
struct ResidualState {
  std::vector<std::uint64_t> ratios = {2, 5, 13, 1, 3, 1, 0, 1, 5, 1, 8};
  std::vector<std::uint64_t> massive = {2, 1, 2, 1};
  std::vector<std::uint64_t> dimensions = {2, 7, 1, 9, 1};  // 2 items: 7 with 1 value, 9 with 1 value
  double largest_ratio = 4000;

  [[nodiscard]] std::string bytes() const {
    StateWriter out;
    for (const auto* const numbers : {&ratios, &massive, &dimensions}) save_state(out, *numbers);
    out.real(largest_ratio);
    return out.bytes();
  }
};

TEST_CASE("a damaged state of the measure residual is an error") {
  StudyShape shape;
  shape.heads.push_back({.id = {0, 0}, .name = "0.0", .component = {}});
  const auto load = [&](const std::string& bytes) {
    const auto measure = parse_measures("residual").front()->make(shape);
    StateReader in(bytes, "damaged.state");
    measure->load(in);
    CHECK(in.at_end());
    StateWriter out;
    measure->save(out);
    return out.bytes();
  };
  const ResidualState valid;
  CHECK(load(valid.bytes()) == valid.bytes());
  for (std::size_t size = 0; size < valid.bytes().size(); ++size)
    CHECK_THROWS_AS(load(valid.bytes().substr(0, size)), Error);

  std::vector<std::pair<ResidualState, const char*>> rows(8);
  rows[0].first.ratios[1] = 1;  // fewer positions than sentences
  rows[0].second = "write ratios do not fit";
  rows[1].first.massive[1] = 3;  // more sentences with a massive value than sentences
  rows[2].first.massive[2] = 0;  // no position in a sentence with a massive value
  rows[3].first.massive[3] = 2;  // two sentences of which position 0 has a massive value
  rows[4].first.massive[2] = 3;  // more positions than values
  for (std::size_t i = 1; i < 5; ++i) rows[i].second = "massive activations do not fit";
  rows[5].first.largest_ratio = -1;
  rows[6].first.largest_ratio = std::numeric_limits<double>::infinity();
  rows[7].first.largest_ratio = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 5; i < 8; ++i) rows[i].second = "not a number from 0";
  for (const auto& row : rows) {
    CAPTURE(row.second);
    CHECK_THROWS_WITH_AS(load(row.first.bytes()), doctest::Contains(row.second), Error);
  }
}

}  // namespace
}  // namespace attnctl::study
