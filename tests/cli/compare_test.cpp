#include <algorithm>
#include <filesystem>
#include <map>
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

/// A copy of the golden model llama whose configuration has other values of some keys, and whose last weight
/// differs by one bit, not the last one, if `flipped` is true.
std::string copy_of_llama(const TempDir& folder, const json& keys, bool flipped) {
  const std::filesystem::path golden = ATTNCTL_SOURCE_DIR "/tests/golden/llama";
  json config = json::parse(slurp(golden / "config.json"));
  config.update(keys);
  folder.write("config.json", config.dump());
  std::string weights = slurp(golden / "model.safetensors");
  if (flipped) weights[weights.size() - 4] ^= 8;
  folder.write("model.safetensors", weights);
  return folder.path().string();
}

TEST_CASE("compare shows what changed in the weights of two models") {
  const std::string llama = ATTNCTL_SOURCE_DIR "/tests/golden/llama";
  const auto statuses = [](const json& rows) {
    std::map<std::string, std::size_t> counts;
    for (const json& row : rows) ++counts[row["status"]];
    return counts;
  };
  using Counts = std::map<std::string, std::size_t>;
  const json same = document_of({llama, ATTNCTL_SOURCE_DIR "/tests/golden/gguf/llama-f32.gguf"});
  CHECK(schema_breaches(json::parse(cli::schema_text("comparison")), same) == Words{});
  CHECK(statuses(same["heads"]) == Counts{{"identical", 12}});
  CHECK(same["projections"].size() == 4 * 12);
  for (const json& row : same["projections"]) {
    CHECK(row["overlap"].get<double>() == doctest::Approx(1));
    CHECK(row["largest_angle"] == 0);
  }

  const TempDir folder;
  const std::string copy = copy_of_llama(folder, {{"rope_theta", 5e5}}, false);
  const json theta = document_of({llama, copy});
  CHECK(statuses(theta["weights"]) == Counts{{"identical", theta["weights"].size()}});
  REQUIRE(theta["config"].size() == 1);
  CHECK(theta["config"][0]["key"] == "rope_theta");
  CHECK(theta["config"][0]["b"] == "500000.0");
  const std::string page = compare({llama, copy, "--format", "text"}).out;
  CHECK_MESSAGE(page.find("No weight differs, but the configurations do") != std::string::npos, page);

  const TempDir other;
  const std::string flipped = copy_of_llama(other, json::object(), true);
  const json bit = document_of({llama, flipped});
  CHECK(bit["config"].empty());
  CHECK(statuses(bit["weights"])["changed"] == 1);
  const auto changed =
      std::ranges::find(bit["weights"], json("changed"), [](const json& row) { return row["status"]; });
  CHECK((*changed)["elements"] == 1);

  CHECK(compare({llama, flipped, "--heads", "1.2", "--format", "csv"})
            .out.starts_with("component,layer,head,name,qk_change,"));
  CHECK(compare({llama, flipped, "--table", "config", "--format", "csv"}).out == "key,a,b\r\n");
  CHECK(compare({llama, flipped, "--format", "svg"}).out.find("Changes of Heads from a to b") !=
        std::string::npos);
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
  check({kBert, kLlama}, 3, "to compare the weights, both models need the same shape");
  check({studies.a, kLlama}, 2, "is not; give two models, or two studies");
  check({studies.a, studies.b, "--layers", "0"}, 2, "only models have these options");
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
