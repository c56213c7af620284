#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/schemas.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

RunResult study(const std::string& file, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {
      "study", ATTNCTL_SOURCE_DIR "/data/tiny-bert", "--input", file, "--measures", "coreference", "--format",
      "json"};
  words.insert(words.end(), more.begin(), more.end());
  return run_attnctl(words);
}

/// The same sentence in CoNLL-U and JSON. "Ann" and "dog" are separate words, although no space separates
/// them from "'s" and ".".
/// ".".
const char* const kConllu =
    "1\tAnn\t_\tPROPN\t_\t_\t3\tnmod\t_\tEntity=(e2(e1)|SpaceAfter=No\n"
    "2\t's\t_\tPART\t_\t_\t1\tcase\t_\t_\n"
    "3\tdog\t_\tNOUN\t_\t_\t4\tnsubj\t_\tEntity=e2)\n"
    "4\tsaw\t_\tVERB\t_\t_\t0\troot\t_\t_\n"
    "5\ther\t_\tPRON\t_\t_\t4\tobj\t_\tEntity=(e1)\n"
    "6\tand\t_\tCCONJ\t_\t_\t8\tcc\t_\t_\n"
    "7\tthe\t_\tDET\t_\t_\t8\tdet\t_\tEntity=(e3\n"
    "8\tdog\t_\tNOUN\t_\t_\t4\tconj\t_\tEntity=e3)\n"
    "9\tknew\t_\tVERB\t_\t_\t4\tconj\t_\t_\n"
    "10\tAnn\t_\tPROPN\t_\t_\t9\tobj\t_\tEntity=(e1)|SpaceAfter=No\n"
    "11\t.\t_\tPUNCT\t_\t_\t4\tpunct\t_\t_\n\n";
const char* const kJson =
    R"({"text": "Ann's dog saw her and the dog knew Ann.", "mentions": [
        {"entity": 2, "range": [0, 9], "type": "nominal"}, {"entity": "1", "range": [0, 3], "type": "proper"},
        {"entity": "1", "range": [14, 17], "type": "pronoun"},
        {"entity": 3, "range": [22, 29], "head": [26, 29], "type": "nominal"},
        {"entity": "1", "range": [35, 38], "type": "proper"}]})";

TEST_CASE("mentions of JSON give what the same ones of CoNLL-U do, beside baselines counted by hand") {
  const TempDir folder;
  const json of_conllu = json::parse(study(folder.write("a.conllu", kConllu).string()).out);
  const json of_json = json::parse(study(folder.write("a.json", kJson).string()).out);
  CHECK(of_conllu["coreference"] == of_json["coreference"]);
  CHECK(of_conllu["summary"]["coreference"] ==
        json::parse(R"({"mentions": 5, "anaphoric": 2, "left_out": 0})"));
  CHECK(of_json["summary"]["coreference"] == of_conllu["summary"]["coreference"]);
  // "her" has the candidates Ann and dog; dog is nearer. The last Ann has the candidates Ann, dog, her and
  // dog.
  for (const json& row : of_conllu["coreference"]) {
    const std::string type = row["mention_type"];
    CAPTURE(type);
    CHECK(row["count"] == (type == "all" ? 2 : type == "nominal" ? 0 : 1));
    if (type == "nominal") {
      CHECK(row["nearest"].is_null());
      CHECK(row["accuracy"].is_null());
      continue;
    }
    CHECK(row["nearest"] == 0);
    CHECK(row["same_string"] == (type == "all" ? 0.5 : type == "proper" ? 1.0 : 0.0));
    CHECK(row["random"] == 0.5);
  }
}

TEST_CASE("damaged mentions are refused with their place") {
  const TempDir folder;
  struct Row {
    const char* mentions;
    const char* part;
  };
  const std::vector<Row> rows = {
      {"3", "/mentions: need an array"},
      {"[3]", "/mentions/0: need an object"},
      {R"([{"entity": 1}])", "need \"entity\" and \"range\""},
      {R"([{"entity": 1, "range": [0, 3], "kind": 2}])", "/mentions/0/kind: unsupported key"},
      {R"([{"entity": 1, "range": [0, 3]}, {"entity": [], "range": [0, 3]}])", "/mentions/1/entity: got []"},
      {R"([{"entity": 1, "range": [3, 3]}])",
       "/mentions/0/range: got [3,3], need [begin, end) of the text's 7"},
      {R"([{"entity": 1, "range": [0, 8]}])", "/mentions/0/range"},
      {R"([{"entity": 1, "range": [-1, 2]}])", "/mentions/0/range"},
      {R"([{"entity": 1, "range": [4, 7], "head": [0, 3]}])", "/mentions/0/head: is not within"},
      {R"([{"entity": 1, "range": [0, 3], "type": "noun"}])", "/mentions/0/type: unsupported"},
      {R"([{"entity": 1, "range": [3, 4]}])", "/mentions/0: contains only white space"},
      {R"([{"entity": 1, "range": [0, 4], "head": [3, 4]}])", "/mentions/0: contains only white space"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.mentions);
    const std::string line = std::string(R"({"text": "the cat", "mentions": )") + row.mentions + "}\n";
    const RunResult result = study(folder.write("bad.jsonl", line).string());
    CHECK(result.status == 3);
    CHECK(result.err.find("bad.jsonl: line 1") != std::string::npos);
    CHECK(result.err.find(row.part) != std::string::npos);
  }
  for (const char* line :
       {R"({"text": "a", "text_pair": "b", "mentions": []})", R"({"ids": [5], "mentions": []})"}) {
    const RunResult result = study(folder.write("bad.jsonl", line).string());
    CHECK(result.status == 3);
    CHECK(result.err.find("mentions: does not go with") != std::string::npos);
  }
}

TEST_CASE(
    "studies against annotation keep to the schema and to their bytes, and say nothing without annotation") {
  const std::string data = ATTNCTL_SOURCE_DIR "/data/";
  const TempDir folder;
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"study", data + "tiny-llama", "--input", data + "treebank.conllu",
                               "--batch-tokens", "30", "--measures", "syntax,coreference"});
    return run_attnctl(more);
  };
  const std::string whole = run({"--threads", "1", "--format", "json"}).out;
  CHECK(run({"--threads", "2", "--format", "json"}).out == whole);
  CHECK(schema_breaches(json::parse(cli::schema_text("study")), json::parse(whole)).empty());
  std::vector<std::string> words = {"merge"};
  for (const std::string shard : {"3", "1", "2"}) {
    words.push_back((folder.path() / shard).string());
    REQUIRE(run({"--shard", shard + "/3", "--state", words.back()}).status == 0);
  }
  words.insert(words.end(), {"--format", "json"});
  CHECK(run_attnctl(words).out == whole);
  CHECK(run({"--format", "json", "--seed", "1"}).out != whole);
  const json plain = json::parse(run_attnctl({"study", data + "tiny-llama", "--input", data + "sentences.txt",
                                              "--measures", "syntax,coreference", "--format", "json"})
                                     .out);
  for (const char* section : {"relations", "trees", "coreference"}) CHECK_FALSE(plain.contains(section));
}

}  // namespace
}  // namespace attnctl::test
