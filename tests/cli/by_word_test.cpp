#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using nlohmann::json;

namespace {

json analyze(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{
      "analyze",   "data/tiny-llama",          "--input",  "-", "--input-format", "jsonl",
      "--include", "metrics,patterns,rollout", "--layers", "1", "--format",       "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const std::string input =
      R"({"tokens": ["<s>", "ĠThe", "Ġan", "imal", "Ġdid", "n", "'t", "Ġlook", "Ġcr", "oss", "Ġstreet"]})";
  const RunResult result = run_attnctl(arguments, {.input = input});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

TEST_CASE("--by-word: all pattern output has words instead of tokens") {
  const json tokens = analyze({});
  const json words = analyze({"--by-word", "--from", "didn", "--to", "animal,cross"});
  const json schema = json::parse(attnctl::cli::schema_text("attnctl.analysis/2"));
  CHECK(attnctl::test::schema_breaches(schema, words).empty());
  const json& input = words.at("inputs")[0];
  CHECK(input.at("unit") == "word");
  CHECK(input.at("tokens")[2] == "animal");
  CHECK(tokens.at("inputs")[0].at("length") > input.at("length"));
  CHECK_FALSE(tokens.at("inputs")[0].contains("unit"));
  REQUIRE(words.at("patterns").size() == tokens.at("patterns").size());
  for (const json& pattern : words.at("patterns")) {
    CHECK(pattern.at("weight").size() == pattern.at("queries"));
    for (const json& row : pattern.at("weight")) {
      double sum = 0;
      for (const json& weight : row) sum += weight.get<double>();
      CHECK(row.size() == pattern.at("keys"));
      CHECK(sum == doctest::Approx(1).epsilon(1e-5));
    }
  }
  // The metrics are computed from the pooled patterns, for example the mean entropy of a head over all
  // inputs.
  for (const json& head : words.at("heads")) {
    double entropy = 0;
    std::size_t rows = 0;
    for (const json& pattern : words.at("patterns")) {
      if (pattern.at("name") != head.at("name")) continue;
      for (const json& row : pattern.at("weight")) {
        ++rows;
        for (const json& weight : row) {
          const double w = weight.get<double>();
          if (w > 0) entropy -= w * std::log(w);
        }
      }
    }
    CHECK(head.at("rows") == rows);
    CHECK(head.at("entropy").get<double>() ==
          doctest::Approx(entropy / static_cast<double>(rows)).epsilon(1e-4));
  }
  CHECK(words.at("attention_from")[0].at("query_token") == "didn");
  for (const json& rollout : words.at("rollout")) {
    double sum = 0;
    for (const json& weight : rollout.at("weight")) sum += weight.get<double>();
    CHECK(sum == doctest::Approx(1).epsilon(1e-5));
  }
}

TEST_CASE("--by-word: inputs without words, and results that cannot be pooled, are rejected") {
  const RunResult result =
      run_attnctl({"analyze", "data/tiny-llama", "--ids", "5,6", "--by-word", "--include", "scores"});
  CHECK(result.status == 2);
  CHECK(result.err.find("--by-word does not support scores; leave it out of --include") != std::string::npos);
}

}  // namespace
