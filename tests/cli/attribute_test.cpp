#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kLlama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
const std::string kText = "one cat and one cat and one";

RunResult attribute(const std::string& model, Words more) {
  more.insert(more.begin(), {"attribute", model});
  return run_attnctl(more);
}

TEST_CASE("attribute writes a logit as the sum that analyze computes, and a score as that of its head") {
  const RunResult result =
      attribute(kLlama, {"--text", kText, "--token", "\u0120cat", "--score", "3.1:7:3", "--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("attribution")), document) == Words{});
  double logit = 0, score = 0;
  for (const json& part : document["logits"]) logit += part["contribution"].get<double>();
  for (const json& part : document["scores"]) score += part["contribution"].get<double>();
  const json analysis = json::parse(run_attnctl({"analyze", kLlama, kText, "--include", "logits,scores",
                                                 "--heads", "3.1", "--format", "json"})
                                        .out);
  const auto cat = document["input"]["ids"][2].get<std::size_t>();
  const auto array = [&](const std::string& name) {
    for (const json& each : analysis["arrays"])
      if (each["array"] == name) return each["value"];
    return json();
  };
  const json logits = array("logits"), scores = array("scores");
  CHECK(logit ==
        doctest::Approx(logits[document["position"].get<std::size_t>()][cat].get<double>()).epsilon(1e-4));
  CHECK(score == doctest::Approx(scores[7][3].get<double>()).epsilon(1e-3));
}

TEST_CASE("the parts of patterns add up to what the patterns of a layer add to ln p of the token") {
  const RunResult result = attribute(
      kLlama, {"--text", kText, "--patterns", "3.0,3.1,3.2,3.3", "--steps", "64", "--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("attribution")), document) == Words{});
  double of_weights = 0, of_heads = 0, largest = 0;
  std::string pair;
  for (const json& part : document["patterns"]) {
    const double value = part["contribution"];
    of_weights += value;
    if (value > largest) {
      largest = value;
      pair = part["of"].get<std::string>() + " " + part["query_token"].get<std::string>() + " " +
             part["key_token"].get<std::string>();
    }
  }
  for (const json& head : document["pattern_heads"]) of_heads += head["contribution"].get<double>();
  REQUIRE(document["pattern_layers"].size() == 1);
  const json& layer = document["pattern_layers"][0];
  CHECK(of_weights == doctest::Approx(of_heads).epsilon(1e-4));
  CHECK(layer["contribution"].get<double>() == doctest::Approx(of_heads).epsilon(1e-4));
  CHECK(
      of_heads ==
      doctest::Approx(layer["log_probability"].get<double>() - layer["without"].get<double>()).epsilon(1e-2));
  CHECK(pair == "3.1 \u0120one \u0120cat");  // the induction head looks at what followed the earlier "one"
}

TEST_CASE("the picture of attribute has one heatmap of all heads per token") {
  const std::string svg =
      attribute(kLlama, {"--text", kText, "--token", "\u0120cat", "--token", "\u0120one", "--format", "svg"})
          .out;
  CHECK(svg.find(">\u0120cat<") != std::string::npos);
  CHECK(svg.find(">\u0120one<") != std::string::npos);
  CHECK(svg.find("\u0120cat 0.0") == std::string::npos);
}

TEST_CASE("the tables of attribute name the number and the sum of the parts that they leave out") {
  const auto run = [](const std::string& format) {
    return attribute(kLlama, {"--text", kText, "--score", "3.1:7:5", "--patterns", "3.1", "--format", format})
        .out;
  };
  const std::string text = run("text");
  const json document = json::parse(run("json"));
  for (const auto& [table, what] :
       {std::pair("logits", "writers"), std::pair("scores", "pairs"), std::pair("patterns", "weights")}) {
    std::vector<double> parts;
    for (const json& part : document[table]) parts.push_back(part["contribution"]);
    std::ranges::sort(parts, std::ranges::greater(), [](double part) { return std::abs(part); });
    double rest = 0;
    for (std::size_t i = 15; i < parts.size(); ++i) rest += parts[i];
    const std::string line = fmt::format("{} more {}, which add up to ", parts.size() - 15, what);
    const std::size_t place = text.find(line);
    REQUIRE_MESSAGE(place != std::string::npos, text);
    CHECK(std::abs(std::stod(text.substr(place + line.size())) - rest) < 0.001);
  }
}

TEST_CASE("attribute explains what it cannot do") {
  struct Row {
    std::string model;
    Words more;
    int status;
    const char* part;
  };
  const std::vector<Row> rows = {
      {kLlama, {}, 2, "--text: need a text (--text TEXT) or token ids (--text-ids IDS)"},
      {kLlama, {"--text", kText, "--text-ids", "1,2"}, 2, "--text and --text-ids: got both"},
      {kLlama, {"--text", ""}, 2, "--text: the text is empty"},
      {kLlama,
       {"--text", kText, "--token", "cat"},
       2,
       "or a token of the vocabulary; \" cat\", with a space before it, is one token"},
      {kLlama, {"--text", kText, "--position", "99"}, 3, "--position: got 99"},
      {kLlama, {"--text", kText, "--steps", "4"}, 2, "--steps requires --patterns"},
      {kLlama, {"--text", kText, "--score", "3.1:7"}, 2, "need HEAD:QUERY:KEY"},
      {kLlama, {"--text", kText, "--score", "3.1:1:5"}, 3, "query 1 does not see key 5"},
      {kLlama, {"--text", kText, "--score", "3.1:1:99"}, 3, "the input has the positions 0 to"},
      {ATTNCTL_SOURCE_DIR "/data/tiny-bert", {"--text", "the cat"}, 3, "need a mask token"},
      {ATTNCTL_SOURCE_DIR "/data/tiny-bert", {"--text", "[MASK] [MASK]"}, 3, "got 2 mask tokens"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.part);
    const RunResult result = attribute(row.model, row.more);
    CHECK(result.status == row.status);
    CHECK_MESSAGE(result.err.find(row.part) != std::string::npos, result.err);
  }
}

}  // namespace
}  // namespace attnctl::test
