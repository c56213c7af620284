#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using attnctl::test::TempDir;
using nlohmann::json;

namespace {

json patterns_of(const std::string& input) {
  const RunResult run = run_attnctl({"analyze", "data/dna-attention.json", "--input", input, "--include",
                                     "patterns,output", "--format", "json"});
  REQUIRE_MESSAGE(run.status == 0, run.err);
  return json::parse(run.out);
}

/// Returns the sequences of data/dna.jsonl by id, with tokens and mask.
std::map<std::string, json> strands() {
  std::map<std::string, json> found;
  std::ifstream file(ATTNCTL_SOURCE_DIR "/data/dna.jsonl");
  for (std::string line; std::getline(file, line);) {
    const json strand = json::parse(line);
    found[strand.at("id")] = strand;
  }
  return found;
}

}  // namespace

TEST_CASE("padded keys have weight 0, and padding does not change patterns or outputs") {
  const auto padded = strands();
  REQUIRE(padded.size() == 2);
  CHECK(padded.at("tata").at("tokens").size() == padded.at("gc").at("tokens").size());
  CHECK(padded.at("tata").at("mask") != padded.at("gc").at("mask"));

  std::string lines;  // the same sequences without padding
  std::map<std::string, std::size_t> lengths;
  for (const std::string id : {"tata", "gc"}) {
    const json& strand = padded.at(id);
    json tokens = json::array();
    for (std::size_t i = 0; i < strand.at("tokens").size(); ++i) {
      if (strand.at("mask").at(i) == 1) tokens.push_back(strand.at("tokens").at(i));
    }
    lengths[id] = tokens.size();
    lines += json{{"id", id}, {"tokens", tokens}}.dump() + "\n";
  }
  CHECK(lengths.at("gc") < lengths.at("tata"));
  const TempDir folder;
  const json with = patterns_of("data/dna.jsonl");
  const json without = patterns_of(folder.write("short.jsonl", lines).string());
  REQUIRE(with.at("patterns").size() == 4);  // 2 sequences with 2 heads each
  for (std::size_t p = 0; p < 4; ++p) {
    const json& pattern = with.at("patterns").at(p);
    const json& bare = without.at("patterns").at(p);
    CHECK(pattern.at("input") == bare.at("input"));
    const std::size_t length = lengths.at(pattern.at("input"));
    REQUIRE(bare.at("keys") == length);
    for (const json& row : pattern.at("weight")) {
      for (std::size_t j = length; j < row.size(); ++j) CHECK(row.at(j) == 0.0);
    }
    for (std::size_t i = 0; i < length; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < length; ++j) {
        const double weight = pattern.at("weight").at(i).at(j);
        sum += weight;
        CHECK(std::abs(weight - bare.at("weight").at(i).at(j).get<double>()) <= 1e-7);
      }
      CHECK(sum == doctest::Approx(1).epsilon(1e-6));
    }
  }
  for (std::size_t a = 0; a < 2; ++a) {
    const json& longer = with.at("arrays").at(a);
    const json& shorter = without.at("arrays").at(a);
    REQUIRE(longer.at("array") == "output");
    for (std::size_t i = 0; i < lengths.at(longer.at("input")); ++i) {
      for (std::size_t c = 0; c < 6; ++c) {
        CHECK(std::abs(longer.at("value").at(i).at(c).get<double>() -
                       shorter.at("value").at(i).at(c).get<double>()) <= 1e-6);
      }
    }
  }
}

TEST_CASE("head 0 of the DNA example looks at the bases that pair") {
  const std::map<std::string, std::string> pairs = {{"A", "T"}, {"C", "G"}, {"G", "C"}, {"T", "A"}};
  const auto all = strands();
  std::size_t seen = 0;
  const json document = patterns_of("data/dna.jsonl");
  for (const json& pattern : document.at("patterns")) {
    if (pattern.at("name") != "0.0") continue;
    const json& tokens = all.at(pattern.at("input")).at("tokens");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto pair = pairs.find(tokens.at(i));
      if (pair == pairs.end()) continue;
      double on_pairs = 0;
      for (std::size_t j = 0; j < tokens.size(); ++j) {
        if (tokens.at(j) == pair->second) on_pairs += pattern.at("weight").at(i).at(j).get<double>();
      }
      CHECK(on_pairs > 0.9);
      ++seen;
    }
  }
  CHECK(seen == 18);
}
