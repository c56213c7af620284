#include <algorithm>
#include <cmath>
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

const std::string kLlama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
const Words kTexts = {"--clean", "one cat and one cat and one", "--corrupt",
                      "one house and one house and one"};

json patched(Words more) {
  more.insert(more.begin(), {"patch", kLlama});
  more.insert(more.end(), {"--format", "json"});
  const RunResult result = run_attnctl(more);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  json document = json::parse(result.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("patch")), document) == Words{});
  return document;
}

Words with(Words more) {
  more.insert(more.begin(), kTexts.begin(), kTexts.end());
  return more;
}

TEST_CASE("patch measures the share of the logit difference that each part of each head restores") {
  const json document = patched(with({"--parts", "z,pattern,value", "--by-position", "--path", "1.0->2.1"}));
  CHECK(document["answer"] == "\u0120cat");
  CHECK(document["wrong"] == "\u0120house");
  const double clean = document["clean"]["metric"], corrupt = document["corrupt"]["metric"];
  CHECK(clean > 5);
  CHECK(corrupt < -5);
  const std::size_t n = document["clean"]["ids"].size();
  CHECK(document["patches"].size() == 16 * (1 + n) + 2 * 16);
  CHECK(document["paths"].size() == 3);
  for (const char* const table : {"patches", "paths"}) {
    for (const json& row : document[table]) {
      CHECK(row["change"].get<double>() ==
            doctest::Approx(row["metric"].get<double>() - corrupt).epsilon(1e-4));
      CHECK(row["effect"].get<double>() ==
            doctest::Approx(row["change"].get<double>() / (clean - corrupt)).epsilon(1e-4));
    }
  }
  // The head that repeats what followed the last time is the one whose values carry the answer.
  const auto best = std::ranges::max_element(document["patches"], {},
                                             [](const json& row) { return row["effect"].get<double>(); });
  CHECK((*best)["effect"] > 0.4);
}

TEST_CASE("--path takes a colon instead of an arrow, and heads with colons") {
  const auto paths = [&](const std::string& path) {
    return patched(with({"--heads", "0.0", "--path", path}))["paths"];
  };
  const json expected = paths("1.0->2.1");
  CHECK(paths("1.0:2.1") == expected);
  CHECK(paths("1:0->2:1") == expected);
}

TEST_CASE("patching into the clean run is the same with the runs exchanged") {
  const json document = patched(
      with({"--into", "clean", "--heads", "3.0,3.1", "--answer", "\u0120cat", "--wrong", "\u0120house"}));
  const json exchanged = patched({"--clean", kTexts[3], "--corrupt", kTexts[1], "--heads", "3.0,3.1",
                                  "--answer", "\u0120cat", "--wrong", "\u0120house"});
  REQUIRE(document["patches"].size() == 2);
  CHECK(document["patches"] == exchanged["patches"]);
}

TEST_CASE("a patch draws the effects by layer and head, and writes tables") {
  const TempDir folder;
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  Words words = with({"-o", path("p.svg")});
  words.insert(words.begin(), {"patch", kLlama});
  CHECK(run_attnctl(words).status == 0);
  CHECK(slurp(path("p.svg")).find("</svg>") != std::string::npos);
  words = with({"--format", "csv", "--path", "0.0->1.1", "--table", "paths"});
  words.insert(words.begin(), {"patch", kLlama});
  CHECK(run_attnctl(words).out.starts_with("from,to,via,metric,change,effect\r\n0.0,1.1,query,"));
}

TEST_CASE("the text of patch says how many patches it leaves out") {
  Words words = with({"--parts", "pattern,value", "--format", "text"});
  words.insert(words.begin(), {"patch", kLlama});
  const std::string text = run_attnctl(words).out;
  CHECK_MESSAGE(text.ends_with("\n12 more patches: --format json\n"), text);
}

TEST_CASE("patch explains what it cannot do") {
  struct Row {
    std::string model;
    Words more;
    int status;
    const char* part;
  };
  const std::vector<Row> rows = {
      {kLlama, {"--clean", "one cat"}, 2, "--corrupt: need a text (--corrupt TEXT) or token ids"},
      {kLlama, {"--clean", "one cat", "--clean-ids", "1,2"}, 2, "--clean and --clean-ids: got both"},
      {ATTNCTL_SOURCE_DIR "/data/attention-demo.json", {"--clean", "a"}, 3, "give --clean-ids 1,2,3"},
      {ATTNCTL_SOURCE_DIR "/data/attention-demo.json",
       {"--clean-ids", "0,1", "--corrupt-ids", "1,0", "--answer", "c", "--wrong", "b"},
       3,
       "no tokenizer, so --answer \"c\" has no token"},
      {kLlama, {"--clean", "one cat", "--corrupt", "one"}, 3, "need texts of equally many tokens"},
      {kLlama,
       {"--clean", "one cat", "--corrupt", "one"},
       3,
       "which first differ at position 2: \"\u0120cat\" and no token;"},
      {kLlama,
       {"--clean", "one cat and", "--corrupt", "one house"},
       3,
       "position 2: \"\u0120cat\" and \"\u0120house\";"},
      {ATTNCTL_SOURCE_DIR "/data/tiny-bert",
       {"--clean", "the [MASK] [MASK]", "--corrupt", "the [MASK] dog"},
       3,
       "--clean: got 2 mask tokens, need one"},
      {kLlama, {"--clean", "one cat", "--corrupt", "one cat"}, 3, "name two tokens whose logits to compare"},
      {kLlama, with({"--path", "1.0-"}), 2,
       "--path 1.0-: need FROM:TO, such as 0.1:2.3, or FROM->TO in quotes"},
      {kLlama, with({"--path", "1.0->0.1"}), 2, "a head of a later layer"},
      {kLlama, with({"--path", "1.0,1.1->2.1"}), 2, "need one head on each side"},
      {ATTNCTL_SOURCE_DIR "/data/tiny-bert",
       {"--clean", "the cat [MASK]", "--corrupt", "the dog [MASK]", "--path", "0.0->1.1"},
       3,
       "--path needs a model whose heads add to the residual stream"},
      {ATTNCTL_SOURCE_DIR "/data/tiny-bert",
       {"--clean", "the cat", "--corrupt", "the dog"},
       3,
       "need a mask token"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.part);
    Words words = {"patch", row.model};
    words.insert(words.end(), row.more.begin(), row.more.end());
    const RunResult result = run_attnctl(words);
    CHECK(result.status == row.status);
    CHECK_MESSAGE(result.err.find(row.part) != std::string::npos, result.err);
  }
}

}  // namespace
}  // namespace attnctl::test
