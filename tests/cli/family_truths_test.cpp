#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/golden.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"

using attnctl::test::Golden;
using attnctl::test::run_attnctl;
using nlohmann::json;

namespace {

std::string ids_of(const Golden& golden, const std::string& input) {
  std::string list;
  for (const double id : golden.array("ids_" + input).values)
    list += (list.empty() ? "" : ",") + std::to_string(static_cast<int>(id));
  return list;
}

void check_routing(const std::string& directory, const Golden& golden, const std::string& input) {
  CAPTURE(input);
  const auto result = run_attnctl(
      {"analyze", directory, "--ids", ids_of(golden, input), "--include", "routing", "--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  const json schema = json::parse(attnctl::cli::schema_text("analysis"));
  for (const std::string& breach : attnctl::test::schema_breaches(schema, document)) FAIL_CHECK(breach);
  const auto experts = golden.array("routing_" + input).values;
  const auto weights = golden.array("routing_weight_" + input).values;
  const json& rows = document.at("routing");
  REQUIRE(rows.size() == experts.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].at("expert") == experts[i]);
    CHECK(std::abs(rows[i].at("weight").get<double>() - weights[i]) <= 1e-5);
  }
}

TEST_CASE("tokens go through the experts that transformers routes them to") {
  for (const std::string model : {"mixtral", "mixtral-packed", "qwen2_moe", "gpt_oss"}) {
    CAPTURE(model);
    const std::string directory = "tests/golden/" + model;
    const Golden golden(directory);
    std::size_t checked = 0;
    for (std::size_t i = 0; i < golden.inputs(); ++i) {
      const std::string input = std::to_string(i);
      if (golden.has("key_mask_" + input)) continue;  // --ids cannot hide keys
      check_routing(directory, golden, input);
      ++checked;
    }
    CHECK(checked > 0);
  }
}

TEST_CASE("routing of a model without experts is rejected") {
  const auto result = run_attnctl({"analyze", "tests/golden/llama", "--ids", "1,2", "--include", "routing"});
  CHECK(result.status == 3);
  CHECK(result.err.find("no selected layer has experts") != std::string::npos);
}

TEST_CASE("mixing is rejected if the attention output is changed before it is added") {
  for (const std::string model : {"gemma2", "olmo2", "granite"}) {
    CAPTURE(model);
    const auto result =
        run_attnctl({"analyze", "tests/golden/" + model, "--ids", "1,2", "--include", "mixing"});
    CHECK(result.status == 3);
    CHECK(result.err.find("mixing ratios are unsupported") != std::string::npos);
  }
}

TEST_CASE("gradients are rejected without an output head and for encoder-decoder models") {
  for (const std::string model : {"bert-headless", "t5", "marian"}) {
    CAPTURE(model);
    const auto result =
        run_attnctl({"experiment", "gradients", "--model", "tests/golden/" + model, "--ids", "1,2,3"});
    CHECK(result.status == 3);
    CHECK(result.err.find("gradients do not support") != std::string::npos);
  }
}

TEST_CASE("gradients pass through every mechanism of single-stack models") {
  for (const std::string model :
       {"gemma2", "gptj", "mixtral", "gpt_oss", "cohere", "opt-350m", "deberta-v2"}) {
    CAPTURE(model);
    const auto result =
        run_attnctl({"experiment", "gradients", "--model", "tests/golden/" + model, "--ids", "1,2,3"});
    CHECK_MESSAGE(result.status == 0, result.err);
  }
}

TEST_CASE("a model with sinks is marked, and its rows sum to less than 1") {
  const auto result = run_attnctl({"analyze", "tests/golden/gpt_oss", "--ids", "1,2,3", "--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  const json schema = json::parse(attnctl::cli::schema_text("analysis"));
  for (const std::string& breach : attnctl::test::schema_breaches(schema, document)) FAIL_CHECK(breach);
  CHECK(document.at("model").at("sinks") == true);
  for (const json& pattern : document.at("patterns")) {
    for (const json& row : pattern.at("weight")) {
      double sum = 0;
      for (const json& weight : row) sum += weight.get<double>();
      CHECK(sum < 1);
      CHECK(sum > 0);
    }
  }
}

}  // namespace
