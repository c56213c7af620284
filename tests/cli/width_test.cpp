// Text pages and the texts of --help in terminals of several widths.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "report/text.hpp"
#include "support/console.hpp"
#include "support/run.hpp"

namespace attnctl::test {
namespace {

const std::string kSentence = "'The cat sat on the mat because it was tired.'";

/// Returns the output of a command in `columns` columns; 0: the width is unknown.
std::string shown(const std::string& command, std::size_t columns) {
  const std::string width = columns == 0 ? "" : std::to_string(columns);
  const RunResult result = run_shell("attnctl " + command, {.environment = {{"COLUMNS", width}}});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return result.out;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("no line of a text page exceeds the terminal") {
  const std::vector<std::string> commands = {
      "analyze data/tiny-bert --input data/tiny-bert/sentences.jsonl --per-input --from it "
      "--include metrics,patterns,weights",
      "analyze data/tiny-llama " + kSentence +
          " --include metrics,rollout,flow,contributions,mixing,largest_value,sinks,activations",
      "analyze data/tiny-llama " + kSentence + " --show 3",
      "analyze data/tiny-llama " + kSentence + " --show 3.1",
      "analyze data/attention-demo.json --input data/sentences.jsonl --from it "
      "--to animal,was,because --include metrics,patterns",
      "analyze data/dna-attention.json --input data/dna.jsonl",
      "weights data/tiny-bert --include weights,circuits,subspaces,composition,token_circuits,map",
      "info data/tiny-bert --tensors --shapes",
      "info --families",
      "tokenize data/tiny-llama --text " + kSentence + " --text-pair " + kSentence,
      "verify data/tiny-bert " + kSentence,
      "study data/tiny-bert --input data/treebank.conllu",
      "compare data/tiny-bert data/tiny-llama --input data/treebank.conllu",
      "plan data/tiny-bert --input data/sentences.txt --nodes 2 --seconds 1",
      "experiment hull",
  };
  for (const std::string& command : commands) {
    for (const std::size_t columns : {80UL, 120UL}) {
      CAPTURE(command);
      for (const std::string& line : lines_of(shown(command + " --format text", columns)))
        CHECK_MESSAGE(report::display_width(line) <= columns, line);
    }
  }
}

TEST_CASE("no line of --help exceeds 80 columns") {
  for (const std::string command :
       {"", "analyze", "weights", "info", "tokenize", "verify", "bench", "experiment", "experiment hull",
        "experiment kinds", "study", "merge", "compare", "series", "plan", "schema", "completion"}) {
    CAPTURE(command);
    for (const std::string& line : lines_of(shown(command + " --help", 0)))
      CHECK_MESSAGE(report::display_width(line) <= 80, line);
  }
}

TEST_CASE("--columns all shows the columns that do not fit") {
  const std::string command = "analyze data/tiny-bert " + kSentence + " --include metrics --format text";
  const std::string page = shown(command, 0);
  CHECK(contains(page, "  best_offset  best_offset_share\n"));
  CHECK_FALSE(contains(page, "--columns"));
  const std::string all = shown(command + " --columns all", 80);
  CHECK(all.substr(all.find("\nHeads")) == page.substr(page.find("\nHeads")));
  const std::string narrow = shown(command, 80);
  CHECK(contains(narrow, "  next_token\n"));
  CHECK(contains(narrow,
                 "\n4 more columns (first_token, special_token, best_offset, best_offset_share):\n"
                 "  --columns all\n"));
}

TEST_CASE("the table of weights shows effective and stable ranks of both circuits in 80 columns") {
  const std::string page = shown("weights data/tiny-bert --format text", 80);
  CHECK(contains(page, "\nhead  qk_effective_rank  ov_effective_rank  qk_stable_rank  ov_stable_rank\n"));
  CHECK(contains(page, "\n2 more columns (qk_numerical_rank, ov_numerical_rank): --columns all\n"));
}

TEST_CASE("experiment scaling shows variances and Jacobians in 80 columns") {
  const std::string page = shown("experiment scaling --components 1 --format text", 80);
  CHECK(
      contains(page, "\n d_k  score_variance  scaled_score_variance  jacobian_norm  scaled_jacobian_norm\n"));
  CHECK(contains(page, "\n5 more columns (largest_weight, "));
}

TEST_CASE("--columns chooses columns of the table of heads by their names in CSV") {
  const std::string command = "analyze data/tiny-bert " + kSentence + " --include metrics --format text ";
  CHECK(contains(shown(command + "--columns distance,entropy", 80), "\nhead  distance  entropy\n"));
  CHECK(contains(shown(command + "--columns entropy --sort self", 80), "\nhead   self  entropy\n"));
  const RunResult unknown = run_shell("attnctl " + command + "--columns entropi");
  CHECK(unknown.status == 2);
  CHECK(
      unknown.err.starts_with("attnctl: --columns entropi: the table has no such column (did you mean "
                              "\"entropy\"?); it has component, "));
  const RunResult other = run_shell("attnctl info data/tiny-bert --columns layer");
  CHECK(other.status == 2);
  CHECK(contains(other.err, "--columns: got layer, need one of all"));
}

TEST_CASE("the help and an error name the tables of a study") {
  std::string help = shown("study --help", 120);
  std::erase_if(help, [](char c) { return c == ' ' || c == '\n'; });
  CHECK(contains(help, "of:heads,distributions,positional,special,repeats,rare,distance,pairs,rollout,"));
  const std::string study = "attnctl study data/tiny-bert --input data/sentences.txt --format csv";
  CHECK(contains(run_shell(study).err,
                 "--table NAME for one table, such as --table heads (--help lists the names)"));
  const RunResult unknown = run_shell(study + " --table head");
  CHECK(unknown.status == 2);
  CHECK(
      contains(unknown.err, "--table: unsupported \"head\" (did you mean \"heads\"?); this run has heads, "));
}

}  // namespace
}  // namespace attnctl::test
