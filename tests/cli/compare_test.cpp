#include <algorithm>
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

const std::string kBert = ATTNCTL_SOURCE_DIR "/data/tiny-bert";
const std::string kLlama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
const std::string kCorpus = ATTNCTL_SOURCE_DIR "/data/treebank.conllu";

/// A folder with the states a.state of tiny-bert and b.state of tiny-llama.
struct TwoStudies {
  TempDir folder;
  std::string a = write("a.state", kBert), b = write("b.state", kLlama);

  [[nodiscard]] std::string write(const std::string& name, const std::string& model,
                                  const Words& more = {}) const {
    std::string path = (folder.path() / name).string();
    Words words = {"study",   model, "--input", kCorpus, "--measures", "metrics,special,roles",
                   "--state", path};
    words.insert(words.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(words);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return path;
  }
};

RunResult compare(const Words& arguments) {
  Words words = {"compare"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_attnctl(words);
}
json document_of(const Words& arguments) {
  const RunResult result = compare(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

TEST_CASE("compare joins two state files, and matches its schema") {
  const TwoStudies studies;
  const json document = document_of({studies.a, studies.b, "--format", "json"});
  CHECK(schema_breaches(json::parse(cli::schema_text("comparison")), document) == Words{});
  CHECK(document["models"]["a"]["path"] == kBert);
  CHECK(document["models"]["b"]["path"] == kLlama);
  CHECK(document["models"]["a"]["family"] != document["models"]["b"]["family"]);
  CHECK(document["roles"].size() > 2);
  CHECK(document["warnings"][0]["code"] == "heads_left_out");  // tiny-llama has one more layer
  CHECK(document["warnings"][0]["message"].get<std::string>().ends_with(": 0 of a, 4 of b"));
  const json back = document_of({studies.b, studies.a, "--format", "json"});
  REQUIRE(back["differences"].size() == document["differences"].size());
  std::size_t changed = 0;
  for (std::size_t i = 0; i < back["differences"].size(); ++i) {
    const json& there = document["differences"][i]["difference"];
    const json& here = back["differences"][i]["difference"];
    CHECK(there.is_null() == here.is_null());
    if (there.is_null()) continue;
    CHECK(there.get<double>() == -here.get<double>());
    if (there.get<double>() != 0) ++changed;
  }
  CHECK(changed > 100);
}

TEST_CASE("a study does not differ from itself") {
  const TwoStudies studies;
  const json document = document_of({studies.a, studies.a, "--format", "json"});
  CHECK(document["differences"].size() > 300);
  for (const json& row : document["differences"]) CHECK(row["difference"] == 0);
  CHECK(document["roles"].empty());
  CHECK(document["warnings"].empty());
  const std::string page = compare({studies.a, studies.a, "--format", "text"}).out;
  CHECK(page.find("No number of a head that text shows differs.") != std::string::npos);
}

TEST_CASE("compare computes the studies of two models") {
  const TwoStudies studies;
  const json wanted = document_of({studies.a, studies.b, "--format", "json"});
  const json document = document_of(
      {kBert, kLlama, "--input", kCorpus, "--measures", "metrics,special,roles", "--format", "json"});
  CHECK(document == wanted);
  const json all = document_of({kBert, kLlama, "--input", kCorpus, "--heads", "0.1,2.3", "--format", "json"});
  CHECK(all["warnings"].dump().find("heads_left_out") == std::string::npos);
  for (const json& row : all["differences"]) CHECK((row["name"] == "0.1" || row["name"] == "2.3"));
  CHECK(all["differences"].dump().find("\"probe\"") != std::string::npos);
}

TEST_CASE("compare gives a warning that both studies have once") {
  const RunResult result = compare({kBert, kLlama, "--input", ATTNCTL_SOURCE_DIR "/data/treebank.conllu",
                                    "--batch-tokens", "4096", "--measures", "syntax", "--format", "json"});
  CHECK(result.err.find("--batch-tokens, such as 42\n") != std::string::npos);
  const json document = json::parse(result.out);
  for (const json& warning : document["warnings"])
    if (warning["code"] == "no_held_out") CHECK(warning["count"] == 1);
}

TEST_CASE("compare writes text, tables and a picture") {
  const TwoStudies studies;
  const std::string page = compare({studies.a, studies.b, "--format", "text"}).out;
  CHECK(page.starts_with("a: " + kBert + ", b: " + kLlama + " (12 common heads, corpus: " + kCorpus + ")\n"));
  CHECK(std::ranges::count(page, '\n') <= 50);
  CHECK(page.find("\nThe models have different architectures: heads with the same number need not") !=
        std::string::npos);
  CHECK(page.find("distributions.") == std::string::npos);
  CHECK(compare({studies.a, studies.a, "--format", "text"}).out.find("architectures") == std::string::npos);
  CHECK(page.find("\nDifferences have no confidence interval yet") != std::string::npos);
  const std::string whole = compare({studies.a, studies.b, "--format", "text", "--top", "all"}).out;
  CHECK(std::ranges::count(whole, '\n') > 140);
  const std::string csv = compare({studies.a, studies.b, "--format", "csv"}).out;
  CHECK(csv.starts_with("table,component,layer,head,name,key,column,a,b,difference\r\nheads,,0,0,0.0,,"));
  const std::string roles = compare({studies.a, studies.b, "--format", "csv", "--table", "roles"}).out;
  CHECK(roles.starts_with("component,layer,head,name,role,detail,change\r\n"));
  CHECK(roles.find(",0,0,0.0,positional,+1,lost\r\n") != std::string::npos);
  const RunResult picture = compare({studies.a, studies.b, "--plot", "special.share", "--format", "svg"});
  CHECK(picture.status == 0);
  CHECK(picture.out.find("Differences (b - a): special share") != std::string::npos);
}

TEST_CASE("compare and merge read the files that match a pattern") {
  const TwoStudies studies;
  const auto pattern = [&](const std::string& name) { return (studies.folder.path() / name).string(); };
  const Words json_of_both = {studies.a, studies.b, "--format", "json"};
  CHECK(document_of({pattern("a*.state"), pattern("[b].state"), "--format", "json"}) ==
        document_of(json_of_both));
  const RunResult several = compare({pattern("*.state"), studies.b});
  CHECK(several.status == 2);
  CHECK_MESSAGE(several.err.find("*.state: matches 2 files, need one") != std::string::npos, several.err);
  CHECK(compare({pattern("c*.state"), studies.b}).err.find("no file matches this pattern") !=
        std::string::npos);
  CHECK(run_attnctl({"merge", pattern("a*.state")}).out == run_attnctl({"merge", studies.a}).out);
  const RunResult status = run_attnctl({"merge", "--status", pattern("*.state"), "--format", "json"});
  CHECK(json::parse(status.out)["states"].size() == 2);
}

TEST_CASE("compare refuses studies that differ in more than the model") {
  const TwoStudies studies;
  const auto check = [](const Words& arguments, int status, const std::string& part) {
    const RunResult result = compare(arguments);
    CHECK(result.status == status);
    CHECK(result.out.empty());
    CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err);
  };
  const std::string seed = studies.write("seed.state", kBert, {"--seed", "5"});
  check({studies.a, seed}, 3,
        seed + ": cannot be compared: --seed: got \"5\", need \"0\" as in " + studies.a +
            "; use the same corpus and options");
  const std::string other = studies.folder.write("other.txt", "A cat.\n").string();
  check({studies.a, studies.write("corpus.state", kBert, {"--input", other})}, 3,
        ": cannot be compared: corpus: got ");
  const std::string part = (studies.folder.path() / "part.state").string();
  REQUIRE(run_attnctl({"study", kBert, "--input", kCorpus, "--measures", "metrics,special,roles", "--shard",
                       "1/2", "--batch-tokens", "16", "--state", part})
              .status == 0);
  check({part, studies.a}, 3, part + ": the study is not finished (");
  check({kBert, kLlama}, 2,
        "is a folder, need a file of attnctl study --state; to compare two models, give --input");
  check({studies.a, studies.folder.write("a.json", "{}").string()}, 3,
        "a.json: is not a study state file; need a file of attnctl study --state");
  check({studies.a, studies.b, "--measures", "metrics"}, 2, "--measures");
  check({kBert, kLlama, "--input", "-"}, 2, "--input -: compare reads the corpus once for each model");
  check({studies.a, studies.b, "--format", "svg"}, 2, "--plot COLUMN");
  check({kBert, kLlama, "--input", kCorpus, "--plot", "entropi", "--format", "svg"}, 2,
        "--plot entropi: no measure has this column");
  check({kBert, kLlama, "--input", kCorpus, "--measures", "pairs"}, 3, "no numbers of single heads");
  check({studies.a, studies.b, "--top", "0"}, 2, "--top: got 0, need a positive number, or all");
}

}  // namespace
}  // namespace attnctl::test
