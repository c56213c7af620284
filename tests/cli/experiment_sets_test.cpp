#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using attnctl::test::slurp;
using attnctl::test::TempDir;
using nlohmann::json;

namespace {

json hull_of(const std::string& keys) {
  const RunResult result = run_attnctl({"experiment", "hull", "--keys", keys, "--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

TEST_CASE("experiment hull: the textbook's keys") {
  const RunResult result = run_attnctl({"experiment", "hull", "--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  const json& keys = document.at("summary").at("keys");
  REQUIRE(keys.size() == 4);
  for (const std::size_t reachable : {0U, 1U, 3U}) {
    CHECK(keys[reachable].at("reachable") == true);
    CHECK(keys[reachable].at("margin") > 0);
  }
  CHECK(keys[3].at("query") == json({{"values", {-1, -1}}}));
  CHECK(keys[2].at("reachable") == false);
  CHECK(keys[2].at("combination") == json({{{"key", 0}, {"weight", 0.5}, {"exact", "1/2"}},
                                           {{"key", 1}, {"weight", 0.5}, {"exact", "1/2"}}}));
  CHECK(keys[2].at("tie_query") == json({{"values", {1, 1}}}));
  CHECK(keys[2].at("ties_with") == json({0, 1}));
  CHECK(document.at("rows")[2].at("combination") == "1/2 [0] + 1/2 [1]");
  // Queries (1, 0) and (0, 1) both give key 2 the score 5.
  CHECK(document.at("rows")[2].at("axis_heads_lowest") == 5);
  CHECK(document.at("summary").at("axis_heads_pick") == 2);
}

TEST_CASE("experiment hull: keys of files and of the command line, a duplicate names its twin") {
  const TempDir folder;
  const std::string file = folder.write("keys.json", "[[0, 0], [4, 0], [0, 4], [1, 1], [4, 0]]").string();
  const json from_file = hull_of(file);
  const json given = hull_of("0,0; 4,0; 0,4; 1,1; 4,0");
  CHECK(from_file.at("rows") == given.at("rows"));
  const json& keys = given.at("summary").at("keys");
  CHECK(keys[1].at("place") == "duplicate");
  CHECK(keys[1].at("duplicate_of") == 4);
  CHECK(keys[4].at("duplicate_of") == 1);
  CHECK(keys[3].at("place") == "inside");
  CHECK(keys[3].at("tie_query").is_null());
  CHECK(given.at("summary").at("reachable") == 2);
  CHECK(given.at("summary").at("axis_heads_pick") == 3);
}

TEST_CASE("experiment hull: invalid keys are rejected") {
  const TempDir folder;
  const auto path = [&](const char* name, const char* text) { return folder.write(name, text).string(); };
  struct Row {
    std::string keys;
    int status;
    std::string says;
  };
  const std::vector<Row> rows = {
      {"1,2;3", 2, "key 1 has size 1, key 0 has size 2"},
      {"1,x", 2, "got 'x'"},
      {"1,2;", 2, "got ''"},
      {"nan,1", 3, "key 0: component 0 is not a finite number"},
      {"no-such.json", 4, "no-such.json"},
      {path("deep.json", "[[1, [2]]]"), 3,
       "/0/1: wrong type; the file must be an array of arrays of numbers"},
      {path("flat.json", "[1, 2]"), 3, "/0: wrong type; the file must be an array of arrays of numbers"},
      {path("none.json", "[]"), 3, "--keys: got no keys"},
      {path("ragged.json", "[[1], [1, 2]]"), 3, "key 1 has size 2"},
      {path("cut.npy", "\x93NUMPY"), 3, "cut.npy"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.keys);
    const RunResult result = run_attnctl({"experiment", "hull", "--keys", row.keys});
    CHECK(result.status == row.status);
    CHECK(result.err.find(row.says) != std::string::npos);
    CAPTURE(result.err);
  }
}

TEST_CASE("experiment diversity: the first draw is saved as weights that load") {
  const TempDir folder;
  const std::string save = (folder.path() / "weights").string();
  const RunResult result = run_attnctl({"experiment", "diversity", "--d", "32", "--heads", "4", "--save",
                                        save, "--draws", "1", "--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json summary = json::parse(result.out).at("summary");
  for (const std::string kind : {"random", "specialised"}) {
    CAPTURE(kind);
    const RunResult weights = run_attnctl({"weights", save + "/" + kind + ".npz", "--format", "json"});
    REQUIRE_MESSAGE(weights.status == 0, weights.err);
    const json similarity = json::parse(weights.out).at("subspace_similarity")[0];
    CHECK(similarity.at("mean_abs_off_diagonal").get<double>() ==
          doctest::Approx(summary.at(kind + "_mean_absolute_similarity").get<double>()).epsilon(1e-5));
  }
  CHECK(slurp(save + "/config.json") == "{\"model_type\": \"attention\", \"heads\": 4}\n");
  CHECK(run_attnctl({"experiment", "diversity", "--d", "10", "--heads", "3"}).status == 2);
  CHECK(run_attnctl({"experiment", "diversity", "--model", "data/tiny-llama", "--d", "10"}).status == 2);
}

}  // namespace
