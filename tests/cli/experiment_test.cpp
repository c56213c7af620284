#include "attnctl/cli/schemas.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/json_schema.hpp"
#include "support/run.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using nlohmann::json;

namespace {

const std::vector<std::string> kSmall = {"experiment", "scaling", "--d-k", "4,16", "--components", "1024"};

RunResult run_small(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kSmall;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_attnctl(arguments);
}

TEST_CASE("experiment: every format") {
  const RunResult result = run_small({"--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  const json schema = json::parse(attnctl::cli::schema_text("attnctl.experiment/1"));
  CHECK(attnctl::test::schema_breaches(schema, document).empty());
  CHECK(document.at("name") == "scaling");
  CHECK(document.at("parameters").at("d_k") == json({4, 16}));
  REQUIRE(document.at("rows").size() == 2);
  CHECK(document.at("rows")[1].at("d_k") == 16);
  CHECK(run_small({"--format", "csv"}).out.starts_with("d_k,queries,score_variance,"));
  CHECK(run_small({"--format", "svg"}).out.find("Variance of the scores") != std::string::npos);
  CHECK(run_small({"--format", "text"}).out.starts_with("Experiment scaling\n"));
  CHECK(run_small({"--format", "json", "--threads", "1"}).out.find("\"seed\": 0") != std::string::npos);
}

TEST_CASE("experiment: what is not known is refused") {
  RunResult result = run_attnctl({"experiment", "no-such"});
  CHECK(result.status == 2);
  result = run_attnctl({"experiment"});
  CHECK(result.status == 2);
  result = run_small({"--format", "npz"});
  CHECK(result.status == 2);
  result = run_attnctl({"experiment", "scaling", "--d-k", "0"});
  CHECK(result.status == 2);
  result = run_small({"--format", "svg", "--picture", "no-such"});
  CHECK(result.status == 2);
  CHECK(result.err == "attnctl: --picture: got no-such, experiment scaling has charts\n");
  result = run_small({"--format", "text", "--picture", "charts"});
  CHECK(result.status == 2);
}

}  // namespace
