#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/fault.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kLlama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
const std::string kBert = ATTNCTL_SOURCE_DIR "/data/tiny-bert";
const std::string kCorpus = ATTNCTL_SOURCE_DIR "/tests/golden/study/corpus.txt";  // 200 sentences
const std::string kTreebank = ATTNCTL_SOURCE_DIR "/data/treebank.conllu";         // 12 sentences

RunResult ablate(const std::string& model, const std::string& corpus, const Words& more,
                 const RunOptions& options = {}) {
  Words words = {"ablate", model, "--input", corpus, "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return run_attnctl(words, options);
}

json ablation(const std::string& model, const std::string& corpus, Words more) {
  more.insert(more.end(), {"--format", "json"});
  const RunResult result = ablate(model, corpus, more);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  json document = json::parse(result.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("study")), document) == Words{});
  return document;
}

/// Returns the record of a removed set.
const json& record_of(const json& records, const std::string& set) {
  const auto found = std::ranges::find_if(records, [&](const json& record) { return record["set"] == set; });
  REQUIRE(found != records.end());
  return *found;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST_CASE("the means of ablate are those of its sentences, weighted by their predicted tokens") {
  for (const std::string replace : {"zero", "mean", "resample"}) {
    CAPTURE(replace);
    const json document = ablation(kLlama, kTreebank, {"--replace", replace});
    REQUIRE(document["ablation"].size() == 16);
    REQUIRE(document["ablation_sentences"].size() == 16 * 12);
    for (const json& record : document["ablation"]) {
      double loss = 0, change = 0, divergence = 0, queries = 0;
      for (const json& sentence : document["ablation_sentences"]) {
        if (sentence["set"] != record["set"]) continue;
        const double count = sentence["queries"];
        loss += count * sentence["loss"].get<double>();
        change += count * sentence["loss_change"].get<double>();
        divergence += count * sentence["divergence"].get<double>();
        queries += count;
      }
      CHECK(record["queries"] == queries);
      CHECK(record["sentences"] == 12);
      CHECK(record["loss"].get<double>() == doctest::Approx(loss / queries));
      CHECK(record["loss_change"].get<double>() == doctest::Approx(change / queries));
      CHECK(record["divergence"].get<double>() == doctest::Approx(divergence / queries));
      CHECK(record["loss_change_low"] <= record["loss_change"]);
      CHECK(record["loss_change_high"] >= record["loss_change"]);
      CHECK(record["self_repair"].get<double>() ==
            doctest::Approx(record["logit_change"].get<double>() - record["direct_change"].get<double>()));
    }
  }
}

TEST_CASE("the interval of ablate is close to that of normal theory over 200 sentences") {
  const json document = ablation(kLlama, kCorpus, {"--layers", "1", "--replace", "zero"});
  for (const json& record : document["ablation"]) {
    CAPTURE(record["set"].get<std::string>());
    const double mean = record["loss_change"];
    double residual = 0, queries = 0, sentences = 0;
    for (const json& sentence : document["ablation_sentences"]) {
      if (sentence["set"] != record["set"]) continue;
      const double count = sentence["queries"];
      residual += std::pow(count * (sentence["loss_change"].get<double>() - mean), 2);
      queries += count;
      ++sentences;
    }
    CHECK(sentences == 200);
    const double error = std::sqrt(residual) / queries;  // of a ratio of sums (Cochran 1977)
    const double width = record["loss_change_high"].get<double>() - record["loss_change_low"].get<double>();
    CHECK(width / (2 * 1.96 * error) == doctest::Approx(1).epsilon(0.15));
    CHECK(std::abs((record["loss_change_high"].get<double>() + record["loss_change_low"].get<double>()) / 2 -
                   mean) < 0.5 * error);
  }
}

TEST_CASE("heads are compared with the other heads, and groups with random sets of the same layers") {
  const TempDir folder;
  const std::string groups = (folder.path() / "groups.json").string();
  write_file(groups, R"({"early": ["0.0", "0.2", "1.0"], "late": ["3.1", "3.2"]})");
  const json document =
      ablation(kLlama, kTreebank, {"--sets", "head,layer", "--groups", groups, "--null-sets", "12"});
  std::map<std::string, std::vector<double>> drawn;
  for (const json& record : document["ablation"]) {
    if (record["kind"] != "random") continue;
    const std::string name = record["set"];
    drawn[name.substr(name.find(" for ") + 5)].push_back(record["loss_change"]);
    CHECK(record["removed"].get<int>() >= 2);
  }
  CHECK(drawn.size() == 6);  // four layers and two groups
  CHECK(record_of(document["ablation"], "early")["heads"] == "0.0+0.2+1.0");
  CHECK(record_of(document["ablation"], "layer 1")["heads"] == "1.0+1.1+1.2+1.3");
  const std::string random = record_of(document["ablation"], "random 0 for layer 1")["heads"];
  CHECK(std::ranges::count(random, '+') == 3);
  CHECK(random != "1.0+1.1+1.2+1.3");
  for (const auto& each : drawn) {
    const std::string& set = each.first;
    const std::vector<double>& nulls = each.second;
    CAPTURE(set);
    CHECK(nulls.size() == 12);
    const json& record = record_of(document["ablation"], set);
    const double change = record["loss_change"];
    const auto as_bad =
        static_cast<double>(std::ranges::count_if(nulls, [&](double value) { return value >= change; }));
    CHECK(record["null_sets"] == 12);
    CHECK(record["p_value"].get<double>() == doctest::Approx((1 + as_bad) / 13));
    CHECK(record["null_high"].get<double>() == doctest::Approx(*std::ranges::max_element(nulls)));
  }
  // A layer has only three other heads, so all 15 other heads are the null.
  CHECK(record_of(document["ablation"], "1.0")["null_sets"] == 15);
}

TEST_CASE("removing the heads that copy brings the repeated half of the probe to the level of the control") {
  const TempDir folder;
  const std::string study = (folder.path() / "study.json").string(),
                    groups = (folder.path() / "groups.json").string();
  REQUIRE(
      run_attnctl({"study", kLlama, "--input", kTreebank, "--measures", "probe,roles", "-o", study}).status ==
      0);
  json induction = json::array();
  const json roles = json::parse(slurp(study))["roles"];
  for (const json& role : roles)
    if (role["role"] == "induction") induction.push_back(role["name"]);
  REQUIRE(induction.size() >= 3);
  write_file(groups, json{{"copying", induction}}.dump());
  const json document =
      ablation(kLlama, kTreebank,
               {"--sets", "group", "--groups", groups, "--probe", "--null-sets", "20", "--replace", "mean"});
  const json& probe = document["probe_ablation"];
  const json& copying = record_of(probe, "copying");
  const double loss = copying["loss"], control = copying["control_loss"];
  CHECK(loss < 1);
  CHECK(control > 8);  // nothing can be copied: worse than a uniform guess, because the model trusts its text
  CHECK(loss + copying["loss_change"].get<double>() > 0.6 * control);
  CHECK(copying["loss_change"] > copying["null_high"]);
  CHECK(copying["p_value"].get<double>() == doctest::Approx(1.0 / 21));
  CHECK(copying["control_change"].get<double>() < 0.2 * copying["loss_change"].get<double>());
}

TEST_CASE(
    "a model that predicts masked tokens is scored on a share of the tokens, or on the mask that is given") {
  const json document = ablation(kBert, kCorpus, {"--layers", "0", "--mask-rate", "0.3"});
  const json& first = document["ablation"][0];
  const double share = first["queries"].get<double>() / document["corpus"]["tokens"].get<double>();
  CHECK(share > 0.15);
  CHECK(share < 0.4);
  CHECK(first["loss"] > 0);
  CHECK(first["direct_change"].is_null());  // the norms come after the sums
  const json all = ablation(kBert, kTreebank, {"--layers", "0", "--mask-rate", "1"});
  CHECK(all["ablation"][0]["queries"] ==
        all["corpus"]["tokens"].get<int>() - 2 * all["corpus"]["sentences"].get<int>());

  const TempDir folder;
  const std::string corpus = (folder.path() / "masked.txt").string();
  write_file(corpus, "the cat sat on the [MASK].\nthe dog ran to the [MASK].\n");
  const json given = ablation(kBert, corpus, {"--answer", "mat", "--wrong", "dog", "--replace", "zero"});
  CHECK(given["ablation"][0]["queries"] == 2);
  CHECK(given["ablation"][0]["answer_change"].is_number());
}

TEST_CASE("the change of the answer is that of the logits of analyze at the last token") {
  const TempDir folder;
  const std::string corpus = (folder.path() / "one.txt").string();
  write_file(corpus, "the cat sat on the\nthe dog sat on the\n");
  const json document =
      ablation(kLlama, corpus,
               {"--answer", "\u0120cat", "--wrong", " house", "--replace", "zero", "--heads", "0.0,1.0"});
  for (const json& record : document["ablation"]) {
    CHECK(record["answer_change"].is_number());
    CHECK(record["answer_change_low"] <= record["answer_change"]);
  }
}

TEST_CASE("keeping more heads of a good order lowers the loss, and all heads give the loss of the model") {
  const TempDir folder;
  const std::string heads = (folder.path() / "heads.json").string();
  REQUIRE(ablate(kLlama, kCorpus, {"-o", heads}).status == 0);
  const json document =
      ablation(kLlama, kCorpus, {"--sets", "keep", "--order", heads + ":loss_change", "--steps", "4"});
  const json& kept = document["kept"];
  REQUIRE(kept.size() == 5);
  const std::vector<int> counts = {0, 4, 8, 12, 16};
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept[i]["kept"] == counts[i]);
  CHECK(kept[4]["ordered"] == document["ablation"][0]["loss"]);
  CHECK(kept[2]["ordered"] < kept[2]["random"]);
  CHECK(kept[0]["ordered"] > kept[4]["ordered"]);
  for (const json& record : document["ablation"]) {
    if (record["kind"] != "keep" || record["set"] == "keep 0") continue;
    const auto better = std::ranges::count_if(document["ablation"], [&](const json& other) {
      return other["set"].get<std::string>().ends_with(" for " + record["set"].get<std::string>()) &&
             other["loss_change"] <= record["loss_change"];
    });
    CHECK(record["p_value"].get<double>() == doctest::Approx((1.0 + static_cast<double>(better)) / 11));
    CHECK(record["p_value"] < 0.5);
  }
}

/// Returns the heads of a model in greedy order, the last removed one first, by one run for each step.
Words heads_by_steps(const std::string& corpus, Words left) {
  const TempDir folder;
  const std::string groups = (folder.path() / "groups.json").string();
  Words removed;
  while (left.size() > 1) {
    json candidates = json::object();
    for (const std::string& head : left) {
      candidates[head] = removed;
      candidates[head].push_back(head);
    }
    write_file(groups, candidates.dump());
    const json document =
        ablation(kLlama, corpus, {"--sets", "group", "--groups", groups, "--null-sets", "0"});
    const auto change = [&](const std::string& head) {
      return record_of(document["ablation"], head)["loss_change"].get<double>();
    };
    const auto best = std::ranges::min_element(left, {}, change);
    removed.push_back(*best);
    left.erase(best);
  }
  left.insert(left.end(), removed.rbegin(), removed.rend());
  return left;
}

TEST_CASE("the greedy order removes one head after the other, each time the one that matters least") {
  const Words heads = {"0.1", "1.0", "1.2", "2.0", "3.1"};
  for (const std::string& order : {std::string("greedy"), "greedy:" + kTreebank}) {
    const std::string corpus = order == "greedy" ? kTreebank : kLlama + "/sentences.jsonl";
    const Words wanted = heads_by_steps(kTreebank, heads);
    const json document =
        ablation(kLlama, corpus,
                 {"--heads", "0.1,1.0,1.2,2.0,3.1", "--order", order, "--sets", "keep", "--steps", "5",
                  "--null-sets", "3", "--replace", "mean", "--mean-from", kTreebank});
    for (std::size_t kept = 0; kept < heads.size(); ++kept) {
      Words removed(wanted.begin() + static_cast<std::ptrdiff_t>(kept), wanted.end());
      std::ranges::sort(removed);
      const json& record = record_of(document["ablation"], "keep " + std::to_string(kept));
      CHECK(record["heads"] == fmt::format("{}", fmt::join(removed, "+")));
    }
  }
}

TEST_CASE("--order takes every number that ablate has for a head") {
  const TempDir folder;
  const std::string heads = (folder.path() / "heads.json").string(),
                    groups = (folder.path() / "groups.json").string();
  REQUIRE(ablate(kLlama, kTreebank, {"--layers", "0,1", "--sets", "head,layer", "-o", heads}).status == 0);
  std::map<double, std::string, std::greater<>> ranked;  // by importance
  const json measured = json::parse(slurp(heads));
  for (const json& record : measured["ablation"])
    if (record["kind"] == "head") ranked[record["importance"]] = record["name"];
  json others = json::array();
  for (const auto& [importance, name] : ranked)
    if (name != ranked.begin()->second) others.push_back(name);
  REQUIRE(others.size() == 7);
  write_file(groups, json{{"others", others}}.dump());
  const json document = ablation(kLlama, kTreebank,
                                 {"--layers", "0,1", "--sets", "group,keep", "--groups", groups, "--order",
                                  heads + ":importance", "--steps", "8"});
  CHECK(record_of(document["ablation"], "keep 1")["loss_change"] ==
        record_of(document["ablation"], "others")["loss_change"]);
}

TEST_CASE("a group with more heads than are selected is kept in a state") {
  const TempDir folder;
  const std::string groups = (folder.path() / "groups.json").string(),
                    state = (folder.path() / "state").string();
  write_file(groups, R"({"two layers": ["0.0", "0.1", "0.2", "0.3", "1.0", "1.1"]})");
  const RunResult whole =
      ablate(kLlama, kTreebank, {"--layers", "0", "--sets", "group", "--groups", groups, "--format", "json"});
  REQUIRE(ablate(kLlama, kTreebank,
                 {"--layers", "0", "--sets", "group", "--groups", groups, "--shard", "1/1", "--state", state})
              .status == 0);
  const RunResult merged = run_attnctl({"merge", state, "--format", "json", "--quiet"});
  REQUIRE_MESSAGE(merged.status == 0, merged.err);
  CHECK(record_of(json::parse(merged.out)["ablation"], "two layers") ==
        record_of(json::parse(whole.out)["ablation"], "two layers"));
}

TEST_CASE("threads, shards, checkpoints and their order do not change a byte of an ablation") {
  const TempDir folder;
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  const Words more = {"--replace", "resample", "--probe", "--sets", "head,mlp"};
  const auto run = [&](Words options, const RunOptions& with = {}) {
    options.insert(options.begin(), more.begin(), more.end());
    return ablate(kLlama, kTreebank, options, with);
  };
  const std::string whole = run({"--format", "json", "--threads", "1"}).out;
  REQUIRE_FALSE(whole.empty());
  CHECK(run({"--format", "json", "--threads", "2"}).out == whole);
  Words files = {"merge", "--format", "json", "--quiet"};
  for (const std::string shard : {"2", "3", "1"}) {
    REQUIRE(run({"--shard", shard + "/3", "--state", path(shard)}).status == 0);
    files.push_back(path(shard));
  }
  CHECK(run_attnctl(files).out == whole);
  const Words checkpointed = {"--checkpoint", path("run.state"), "--checkpoint-every", "0", "--format",
                              "json"};
  RunOptions killed;
  killed.environment = with_fault("rename:KILL:2", "run.state");
  CHECK(run(checkpointed, killed).status == 128 + 9);
  CHECK(run(checkpointed).out == whole);
  // Another replacement is another study.
  const RunResult other = ablate(kLlama, kTreebank, {"--replace", "zero", "--checkpoint", path("run.state")});
  CHECK(other.status == 3);
  CHECK_MESSAGE(other.err.find("belongs to another study") != std::string::npos, other.err);
}

TEST_CASE("study --causal shows each role beside the effect of removing its head") {
  const json document = [] {
    const RunResult result =
        run_attnctl({"study", kLlama, "--input", kTreebank, "--measures", "probe,positional,roles",
                     "--causal", "--format", "json", "--quiet"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return json::parse(result.out);
  }();
  CHECK(schema_breaches(json::parse(cli::schema_text("study")), document) == Words{});
  std::size_t confirmed = 0, roles = 0;
  for (const json& role : document["roles"])
    if (!role["role"].is_null()) ++roles;
  CHECK(document["causal_roles"].size() == roles);
  for (const json& role : document["causal_roles"]) {
    const json& removal = record_of(document["ablation"], role["name"]);
    for (const char* const key : {"loss_change", "loss_change_low", "null_mean", "p_value", "self_repair"})
      CHECK(role[key] == removal[key]);
    if (role["confirmed"]) {
      ++confirmed;
      CHECK(role["loss_change_low"] > 0);
    }
  }
  CHECK(confirmed > 0);
  CHECK(confirmed < roles);
}

/// Returns the number of times that a warning occurred in a run.
int count_of(const json& document, const std::string& code) {
  for (const json& warning : document["warnings"])
    if (warning["code"] == code) return warning["count"];
  return 0;
}

TEST_CASE("a corpus of mask tokens needs an answer, and other sentences without one are counted") {
  const TempDir folder;
  const auto corpus = [&](const std::string& name, const std::string& text) {
    write_file(folder.path() / name, text);
    return (folder.path() / name).string();
  };
  const RunResult none = ablate(kBert, corpus("masked.txt", "the cat sat on the [MASK].\n"), {});
  CHECK(none.status == 3);
  CHECK_MESSAGE(
      none.err.find("has no sentences with tokens to predict (a sentence with a mask token needs "
                    "--answer and --wrong of attnctl ablate); give another corpus") != std::string::npos,
      none.err);
  const std::string mixed = corpus("mixed.txt", "the [MASK] sat on the [MASK].\nthe dog ran.\n");
  const json left_out = ablation(kBert, mixed, {"--heads", "0.0"});
  CHECK(left_out["ablation"][0]["sentences"] == 1);
  CHECK(count_of(left_out, "mask_without_answer") == 1);
  const json answered = ablation(kBert, mixed, {"--heads", "0.0", "--answer", "cat", "--wrong", "dog"});
  CHECK(answered["ablation"][0]["sentences"] == 2);
  CHECK(count_of(answered, "several_masks") == 1);
  CHECK(count_of(answered, "answer_without_mask") == 1);
}

TEST_CASE("positions after the end of the replacing input are counted in a warning") {
  const TempDir folder;
  const std::string first = (folder.path() / "short.txt").string(),
                    second = (folder.path() / "long.txt").string();
  write_file(first, "one cat\n");
  write_file(second, "one cat and one cat\none house and one house\n");
  for (const Words& more : {Words{"--by-position"}, Words{"--replace", "resample"}, Words{"--seed", "1"}}) {
    CAPTURE(more.front());
    Words words = {"--heads", "0.0", "--mean-from", first};
    words.insert(words.end(), more.begin(), more.end());
    const json document = ablation(kLlama, second, words);
    const int longer = document["corpus"]["tokens"].get<int>() - 2 * 3;  // <s> one cat has 3 tokens
    CHECK(longer > 0);
    CHECK(count_of(document, "repeated_position") == (more.front() == "--seed" ? 0 : longer));
  }
}

TEST_CASE("--columns all shows the other columns of the tables of ablate, which the text names") {
  const Words words = {"--layers", "3", "--probe", "--format", "text"};
  const std::string text = ablate(kLlama, kTreebank, words).out;
  CHECK(
      text.find("8 more columns (logit_change, direct_change, self_repair, estimate, importance, null_sets, "
                "null_high, heads): --columns all") != std::string::npos);
  CHECK(text.find("5 more columns (estimate, importance, null_sets, null_high, heads): --columns all") !=
        std::string::npos);
  Words more = words;
  more.insert(more.end(), {"--columns", "all"});
  const std::string all = ablate(kLlama, kTreebank, more).out;
  for (const char* const column : {"logit_change", "direct_change", "self_repair", "importance", "null_high"})
    CHECK_MESSAGE(all.find(std::string("  ") + column) != std::string::npos, all);
  CHECK(all.find("--columns all") == std::string::npos);
}

TEST_CASE("ablate draws the sets that are not heads") {
  const TempDir folder;
  const std::string picture = (folder.path() / "sets.svg").string();
  const RunResult result =
      ablate(kLlama, kTreebank, {"--sets", "layer,mlp", "--null-sets", "2", "-o", picture});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const std::string svg = slurp(picture);
  for (const char* const label : {"layer 0", "mlp 3", "change of the loss (nats)"})
    CHECK(svg.find(label) != std::string::npos);
  CHECK(svg.find("random") == std::string::npos);
}

TEST_CASE("the text of ablate says how many sets it leaves out") {
  const std::string text =
      ablate(kLlama, kTreebank, {"--layers", "2,3", "--sets", "pair", "--format", "text"}).out;
  CHECK_MESSAGE(text.find("\n8 more sets with smaller changes: --format json\n") != std::string::npos, text);
}

TEST_CASE("study --causal computes the roles, and has an empty table if no head has one") {
  const auto run = [](const std::string& heads) {
    const RunResult result = run_attnctl({"study", kLlama, "--input", kTreebank, "--measures", "positional",
                                          "--causal", "--heads", heads, "--format", "json", "--quiet"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return json::parse(result.out);
  };
  CHECK(run("1.0,1.1")["causal_roles"].size() == 2);
  const json none = run("3.0,3.1");
  CHECK(none["causal_roles"] == json::array());
  CHECK(schema_breaches(json::parse(cli::schema_text("study")), none) == Words{});
}

TEST_CASE("ablate explains what it cannot do") {
  const TempDir folder;
  const std::string bad = (folder.path() / "bad.json").string();
  write_file(bad, R"({"a": "0.0"})");
  const std::string heads = (folder.path() / "heads.json").string();
  write_file(heads, ablate(kLlama, kTreebank, {"--heads", "0.0", "--format", "json"}).out);
  struct Row {
    std::string model;
    Words more;
    int status;
    const char* part;
  };
  const std::vector<Row> rows = {
      {kLlama, {"--sets", "group"}, 2, "--sets group: needs --groups FILE"},
      {kLlama, {"--sets", "keep"}, 2, "--sets keep: needs --order FILE:COLUMN or --order greedy"},
      {kLlama, {"--order", "greedy:"}, 2, "need greedy or greedy:FILE"},
      {kLlama, {"--order", "greedy:missing.txt"}, 4, "missing.txt"},
      {kLlama, {"--groups", bad}, 3, "need a list of heads such as"},
      {kLlama, {"--groups", heads}, 3, "the document has no list \"roles\"; need the JSON document of"},
      {kLlama, {"--order", bad}, 2, "need FILE:COLUMN"},
      {kLlama, {"--order", bad + ":x"}, 3, "has no list \"heads\""},
      {kLlama, {"--order", heads + ":los"}, 3, "no head has a number in the column \"los\""},
      {kLlama, {"--order", heads + ":los"}, 3, "need one of direct_change, divergence, divergence_high"},
      {kLlama, {"--by-position", "--replace", "zero"}, 2, "only --replace mean uses it"},
      {kLlama, {"--mean-from", kCorpus, "--replace", "zero"}, 2, "--replace zero uses no corpus"},
      {kLlama, {"--answer", "the cat", "--wrong", "dog"}, 2, "need a text of one token"},
      {kLlama, {"--answer", "cat"}, 2, "--wrong"},
      {kLlama, {"--steps", "4"}, 2, "--steps requires --order"},
      {kLlama, {"--mask-rate", "0.5"}, 2, "--mask-rate: the model predicts next tokens"},
      {kBert, {"--probe"}, 3, "needs a causal model"},
      {ATTNCTL_SOURCE_DIR "/tests/golden/bert-headless", {"--mask-rate", "0.5"}, 3, "has no output head"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.part);
    const RunResult result = ablate(row.model, kTreebank, row.more);
    CHECK(result.status == row.status);
    CHECK_MESSAGE(result.err.find(row.part) != std::string::npos, result.err);
  }
}

}  // namespace
}  // namespace attnctl::test
