#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "inspect/catalogue.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

// --limit of `analyze` and `weights`, compared with the number of values in JSON.
namespace attnctl::test {
namespace {

using nlohmann::json;

/// Returns a JSON weights file of one layer. Its 40 heads use 5 slices of W_q, W_k and W_v.
json tied_heads() {
  constexpr std::size_t kHeads = 40, kSlices = 5, kModel = 3, kWidth = 2, kVocabulary = 6;
  std::uint32_t state = 1;
  const auto matrix = [&](std::size_t rows, std::size_t columns) {
    json values = json::array();
    for (std::size_t r = 0; r < rows; ++r) {
      json row = json::array();
      for (std::size_t c = 0; c < columns; ++c) {
        state = state * 1664525U + 1013904223U;
        row.push_back((static_cast<double>(state >> 16U) - 32768) / 32768);
      }
      values.push_back(row);
    }
    return values;
  };
  std::vector<std::size_t> slices;
  for (std::size_t head = 0; head < kHeads; ++head) slices.push_back(head % kSlices);
  return {{"config", {{"model_type", "attention"}, {"heads", kHeads}, {"head_slices", slices}}},
          {"W_q", matrix(kModel, kSlices * kWidth)},
          {"W_k", matrix(kModel, kSlices * kWidth)},
          {"W_v", matrix(kModel, kSlices * kWidth)},
          {"W_o", matrix(kHeads * kWidth, kModel)},
          {"embedding", matrix(kVocabulary, kModel)}};
}

std::size_t values_in(const json& value) {
  if (!value.is_structured()) return 1;
  std::size_t count = 0;
  for (const json& item : value) count += values_in(item);
  return count;
}

/// Returns the number of values of the results in a document.
std::size_t values_of_results(const json& document) {
  const std::set<std::string> others = {"inputs", "metrics", "warnings"};
  std::size_t count = 0;
  for (const auto& [key, section] : document.items())
    if (section.is_array() && !others.contains(key)) count += values_in(section);
  return count;
}

/// Checks that --limit accepts the number of values in JSON, and that a smaller limit is status 5.
void check_limit(std::vector<std::string> command) {
  std::string shown;
  for (const std::string& word : command) shown += word + " ";
  CAPTURE(shown);
  const auto with = [&](const std::string& limit) {
    std::vector<std::string> limited = command;
    limited.insert(limited.end(), {"--format", "json", "--limit", limit});
    return run_attnctl(limited);
  };
  const RunResult whole = with("1000000");
  REQUIRE_MESSAGE(whole.status == 0, whole.err);
  const std::size_t values = values_of_results(json::parse(whole.out));
  REQUIRE(values > 1);
  const RunResult enough = with(std::to_string(values));
  CHECK_MESSAGE(enough.status == 0, enough.err);
  const RunResult refused = with(std::to_string(values - 1));
  CHECK(refused.status == 5);
  CHECK(refused.out.empty());
  const std::string message = "the output has up to " + std::to_string(values) + " values";
  CHECK_MESSAGE(refused.err.find(message) != std::string::npos, refused.err);
}

TEST_CASE("--limit counts the values of every --include") {
  const TempDir folder;
  const std::string tied = folder.write("tied.json", tied_heads().dump()).string();
  for (const std::string& include : inspect::include_names()) {
    const std::string model = include == "logits"    ? "tests/golden/llama"
                              : include == "routing" ? "tests/golden/mixtral"
                                                     : tied;
    check_limit({"analyze", model, "--ids", "1,2,3", "--ids", "4,5", "--include", include});
  }
  for (const std::string& include : inspect::include_names(inspect::Given::weights))
    check_limit({"weights", tied, "--include", include});
}

TEST_CASE("--limit counts the values of options that change the size of the results") {
  const TempDir folder;
  const std::string tied = folder.write("tied.json", tied_heads().dump()).string();
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"metrics,weights", "--per-input"},
                                             {"metrics", "--from", "1", "--to", "0"},
                                             {"metrics", "--from", "1", "--top", "2"},
                                             {"contributions", "--output-rank", "1,2"},
                                             {"contributions", "--output-rank", "none"},
                                             {"rollout,flow", "--rollout-from", "1"},
                                             {"map", "--similarity", "qk,ov,w_q,w_k,w_v,w_o"}}) {
    std::vector<std::string> command = {"analyze", tied, "--ids", "1,2,3", "--ids", "4,5", "--include"};
    command.insert(command.end(), options.begin(), options.end());
    check_limit(command);
  }
  check_limit({"weights", "data/tiny-llama", "--include", "weights,subspaces,composition,map",
               "--across-layers", "--order", "cluster"});
  check_limit({"weights", "data/tiny-llama", "--directions", "2", "--heads", "0.1,2.0,2.3"});
  check_limit({"weights", "data/tiny-llama", "--include", "token_circuits", "--top", "7"});
  const RunResult text = run_attnctl({"weights", "data/tiny-llama", "--include", "directions,circuits",
                                      "--format", "text", "--limit", "1000"});
  CHECK_MESSAGE(text.status == 0, text.err);  // text does not show them
}

}  // namespace
}  // namespace attnctl::test
