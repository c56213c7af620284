#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/json_schema.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/run.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kBert = ATTNCTL_SOURCE_DIR "/data/tiny-bert";
const std::string kSentences = ATTNCTL_SOURCE_DIR "/data/sentences.txt";

const Words kCorpus = {kBert, "--input", kSentences, "--batch-tokens", "16", "--threads", "2", "--quiet"};

RunResult run(const std::string& command, const Words& more) {
  Words words = {command};
  words.insert(words.end(), kCorpus.begin(), kCorpus.end());
  words.insert(words.end(), more.begin(), more.end());
  return run_attnctl(words);
}

json plan(const std::string& nodes, const Words& more = {}) {
  Words words = {"--nodes", nodes, "--seconds", "0.5", "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  const RunResult result = run("plan", words);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

std::uint64_t sum(const json& rows, const char* field) {
  std::uint64_t total = 0;
  for (const json& row : rows) total += row.at(field).get<std::uint64_t>();
  return total;
}

TEST_CASE("a plan matches its schema, and its shards cover the corpus") {
  const json document = plan("3");
  CHECK(schema_breaches(json::parse(cli::schema_text("plan")), document) == Words{});
  const json& corpus = document["corpus"];
  const json& shards = document["shards"];
  REQUIRE(shards.size() == 3);
  CHECK(shards[1]["shard"] == "2/3");
  CHECK(sum(shards, "blocks") == corpus["blocks"]);
  CHECK(sum(shards, "sentences") == corpus["sentences"]);
  CHECK(sum(shards, "tokens") == corpus["tokens"]);
  CHECK(sum(shards, "pairs") == corpus["pairs"]);
  for (const json& shard : shards) CHECK(shard["seconds"] > 0);
  for (const json& trial : document["trials"]) CHECK(trial["seconds"] > 0);
  const json& memory = document["memory"];
  CHECK(memory["node"] == memory["process"].get<std::uint64_t>() + memory["weights"].get<std::uint64_t>() +
                              2 * memory["worker"].get<std::uint64_t>());
  CHECK(memory["workers"] == 2);
  CHECK(document["summary"]["seconds"] > 0);
  CHECK(document["summary"]["nodes"] == 3);
}

TEST_CASE("the blocks and tokens of a plan are those of the shards") {
  const TempDir folder;
  const std::string state = (folder.path() / "shard.state").string();
  const json document = plan("3");
  for (std::size_t i = 1; i <= 3; ++i) {
    CAPTURE(i);
    REQUIRE(run("study", {"--shard", std::to_string(i) + "/3", "--state", state}).status == 0);
    const RunResult merged = run_attnctl({"merge", state, "--partial", "--format", "json", "--quiet"});
    REQUIRE(merged.status == 0);
    const json study = json::parse(merged.out);
    const json& shard = document["shards"][i - 1];
    CHECK(shard["blocks"] == study["summary"]["blocks"]);
    CHECK(shard["sentences"] == study["corpus"]["sentences"]);
    CHECK(shard["tokens"] == study["corpus"]["tokens"]);
    CHECK(document["corpus"]["blocks"] == study["summary"]["of"]);
  }
}

TEST_CASE("the cost law predicts the cost of a larger corpus") {
  const TempDir folder;
  const json once = plan("1", {"--measures", "distance"});
  const json twice = plan("1", {"--measures", "distance", "--input", kSentences});
  const auto law = [](const json& document, const json& of) {
    const json& cost = document["cost"];
    return cost["token"].get<double>() * of["tokens"].get<double>() +
           cost["pair"].get<double>() * of["pairs"].get<double>();
  };
  CHECK(twice["corpus"]["tokens"] == 2 * once["corpus"]["tokens"].get<std::uint64_t>());
  CHECK(law(once, twice["corpus"]) == doctest::Approx(2 * law(once, once["corpus"])));
  for (const json& document : {once, twice}) {
    const double computed = law(document, document["corpus"]);
    const json& cost = document["cost"];
    const double all = computed + cost["read"].get<double>() + cost["start"].get<double>();
    CHECK(document["summary"]["cpu_seconds"].get<double>() == doctest::Approx(all).epsilon(0.01));
  }
}

TEST_CASE("a plan with --memory says what a study needs that keeps the weights of one layer at a time") {
  const TempDir folder;
  const std::string llama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
  MemoryModel::read(llama).with_layers(48).write_with_tokenizer(folder.path(), llama);
  const auto run_with = [&](const std::string& command, const std::string& memory, const Words& more = {}) {
    Words words = {command,     folder.path().string(),
                   "--input",   ATTNCTL_SOURCE_DIR "/data/treebank.conllu",
                   "--threads", "2",
                   "--memory",  memory};
    words.insert(words.end(), more.begin(), more.end());
    return run_attnctl(words);
  };
  const RunResult refused = run_with("plan", "1M");
  CHECK(refused.status == 5);
  CHECK(refused.out.empty());
  const std::string before = "too few, ";
  const std::size_t begin = refused.err.find(before) + before.size();
  const std::string enough = refused.err.substr(begin, refused.err.find('M', begin) + 1 - begin);
  CAPTURE(refused.err);
  const Words quick = {"--seconds", "0.5", "--format", "json", "--quiet"};
  const RunResult done = run_with("plan", enough, quick);
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  const json document = json::parse(done.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("plan")), document) == Words{});
  const auto limit = std::stoull(enough) << 20U;
  CHECK(document["settings"]["memory"] == limit);
  CHECK(document["cost"]["group"] > 0);
  CHECK(document["memory"]["weights"] == 0);
  CHECK(document["memory"]["worker"] > 0);
  if (!kSanitized) {
    CHECK(document["memory"]["node"] <= limit);
    CHECK(done.peak_bytes <= limit);
  }
  const json free = json::parse(run_with("plan", "2G", quick).out);  // all weights fit
  CHECK(free["cost"]["group"] == 0);
  CHECK(free["memory"]["weights"] > 0);
  CHECK(free["shards"][0]["blocks"] == document["shards"][0]["blocks"]);
  CHECK(run_with("plan", "2G", {"--null-model", "1"}).status == 2);
}

TEST_CASE("plan: invalid options are rejected") {
  struct Case {
    Words words;
    int status;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{"--nodes", "0"}, 2, "--nodes"},
      {{"--seconds", "0"}, 2, "--seconds"},
      {{"--format", "csv", "--table", "heads"},
       2,
       "--table: unsupported \"heads\"; this run has shards, choices, trials"},
      {{"--measures", "colour"}, 2, "unsupported \"colour\""},
      {{"--max-length", "3"}, 3, "--stride cuts it into windows, --skip-bad skips it"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.says);
    const RunResult result = run("plan", each.words);
    CHECK(result.status == each.status);
    CHECK(result.err.find(each.says) != std::string::npos);
    CHECK(result.out.empty());
  }
}

TEST_CASE("a plan says that CoNLL-U is read as text") {
  const TempDir folder;
  const std::string file = folder.write("a.txt", "1\tthe\t_\tDET\t_\t_\t0\troot\t_\t_\n").string();
  const RunResult result = run_attnctl(
      {"plan", kBert, "--input", file, "--measures", "metrics", "--seconds", "0.1", "--format", "json"});
  CHECK(result.status == 0);
  CHECK_MESSAGE(result.err.find("1 sentence looks like CoNLL-U but is read as text") != std::string::npos,
                result.err);
}

TEST_CASE("tables of a plan") {
  const RunResult shards = run("plan", {"--nodes", "2", "--seconds", "0.5", "--format", "csv"});
  REQUIRE(shards.status == 0);
  CHECK(shards.out.starts_with("shard,blocks,sentences,tokens,pairs,seconds,cpu_seconds\r\n1/2,"));
  const RunResult text = run("plan", {"--nodes", "2", "--seconds", "0.5", "--format", "text"});
  REQUIRE(text.status == 0);
  for (const char* says :
       {"Time ", "Memory ", "Cost ", "Nodes ", "\nShards\n", "\nNumbers of nodes\n", "\nTrials"})
    CHECK(text.out.find(says) != std::string::npos);
}

}  // namespace
}  // namespace attnctl::test
