#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
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
  const std::int64_t cat = document["input"]["ids"][2];
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

TEST_CASE("attribute explains what it cannot do") {
  struct Row {
    std::string model;
    Words more;
    int status;
    const char* part;
  };
  const std::vector<Row> rows = {
      {kLlama, {}, 2, "--text: need a text (--text TEXT) or token ids (--text-ids IDS)"},
      {kLlama, {"--text", kText, "--position", "99"}, 3, "--position: got 99"},
      {kLlama, {"--text", kText, "--score", "3.1:7"}, 2, "need HEAD:QUERY:KEY"},
      {kLlama, {"--text", kText, "--score", "3.1:1:5"}, 3, "query 1 does not see key 5"},
      {kLlama, {"--text", kText, "--score", "3.1:1:99"}, 3, "the input has the positions 0 to"},
      {ATTNCTL_SOURCE_DIR "/data/tiny-bert", {"--text", "the cat"}, 3, "need a mask token"},
      {ATTNCTL_SOURCE_DIR "/tests/golden/t5",
       {"--text-ids", "1,2"},
       3,
       "does not support encoder-decoder models"},
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
