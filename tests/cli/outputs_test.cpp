#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/console.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

json schema_of(const std::string& output) {
  return json::parse(cli::schema_text(output));
}

void check_valid(const json& document) {
  for (const std::string& breach : schema_breaches(schema_of(document.at("schema")), document))
    FAIL_CHECK(breach);
}

/// Returns command lines that together fill every section of the documents. The first word decides the
/// schema.
const std::vector<std::string>& documents() {
  static const std::vector<std::string> lines = {
      "analyze data/attention-demo.json --input data/sentences.jsonl --from it --to animal,was",
      "analyze data/attention-demo.json --ids 0,1,2 --include "
      "metrics,patterns,scores,queries,keys,values,z,output,weights,directions,circuits,rollout",
      "analyze data/tiny-bert --input data/tiny-bert/sentences.jsonl --per-input --include metrics",
      "analyze tests/golden/llama --ids 5,6,7,8 --include logits --layers 1",
      "analyze data/tiny-bert --input data/tiny-bert/sentences.jsonl --heads 0.1,1.0",
      "weights tests/golden/llama",
      "weights data/tiny-bert --across-layers --directions 2",
      "weights tests/golden/attention-tied --include weights,directions,subspaces,map",
      "weights tests/golden/attention-factorised --include weights,circuits,subspaces,composition",
      "info tests/golden/llama",
      "info tests/golden/attention-tied-factorised",
      "info data/tiny-bert --shapes --batch 2 --length 10",
      "info data/attention-demo.json --tensors",
      "verify tests/golden/llama --ids 5,6,7,8",
      "verify data/attention-demo.json",
  };
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : line + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(word);
      word.clear();
    }
  }
  return words;
}

TEST_CASE("every output keeps its schema") {
  for (const std::string& line : documents()) {
    CAPTURE(line);
    const RunResult result = run_attnctl(words_of(line + " --format json"));
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    const json document = json::parse(result.out);
    const std::string command = line.substr(0, line.find(' '));
    CHECK(document.at("schema") ==
          "attnctl." + (command == "info" || command == "verify" ? command : "analysis") + "/2");
    check_valid(document);
  }
}

TEST_CASE("JSON Lines hold what JSON holds") {
  const std::map<std::string, std::string> section_of = {
      {"input", "inputs"},     {"metric", "metrics"},         {"head", "heads"},
      {"pattern", "patterns"}, {"circuit", "circuits"},       {"array", "arrays"},
      {"warning", "warnings"}, {"comparison", "comparisons"}, {"prediction", "predictions"},
  };
  for (const std::string& line : documents()) {
    if (line.rfind("info", 0) == 0) continue;
    CAPTURE(line);
    const RunResult whole = run_attnctl(words_of(line + " --format json"));
    const RunResult lines = run_attnctl(words_of(line + " --format jsonl"));
    REQUIRE(lines.status == 0);
    json joined;
    for (const std::string& text : lines_of(lines.out)) {
      json record = json::parse(text);
      if (joined.is_null()) {
        joined = record;
        continue;
      }
      const auto kind = record.at("record").get<std::string>();
      record.erase("record");
      const auto section = section_of.find(kind);
      joined[section == section_of.end() ? kind : section->second].push_back(record);
    }
    json document = json::parse(whole.out);
    for (auto member = document.begin(); member != document.end();)
      member = member->is_array() && member->empty() ? document.erase(member) : std::next(member);
    CHECK(joined == document);
  }
}

TEST_CASE("the same command gives the same bytes") {
  for (const std::string& line : documents()) {
    CAPTURE(line);
    const std::vector<std::string> words = words_of(line + " --format json --threads 2");
    CHECK(run_attnctl(words).out == run_attnctl(words).out);
  }
  const std::string analyze =
      "analyze data/tiny-bert --input data/tiny-bert/sentences.jsonl --threads 2 --format ";
  for (const std::string& line :
       {analyze + "jsonl", analyze + "csv --table heads", analyze + "tsv --table patterns", analyze + "npz",
        analyze + "npz --compress", analyze + "text", analyze + "svg", analyze + "png", analyze + "pdf",
        std::string("tokenize data/tiny-bert --input data/sentences.txt --format jsonl"),
        std::string("study data/tiny-bert --input data/sentences.txt --format json"),
        std::string("compare data/tiny-bert data/tiny-llama --input data/sentences.txt --format json"),
        std::string("experiment diversity --format json"), std::string("explain --format json")}) {
    CAPTURE(line);
    const RunResult first = run_attnctl(words_of(line));
    CHECK_MESSAGE(first.status == 0, first.err);
    CHECK((run_attnctl(words_of(line)).out == first.out));
  }
  const std::string weights =
      "weights data/tiny-llama --include weights,directions,subspaces --format npz --threads ";
  CHECK((run_attnctl(words_of(weights + "1")).out == run_attnctl(words_of(weights + "3")).out));
}

}  // namespace
}  // namespace attnctl::test
