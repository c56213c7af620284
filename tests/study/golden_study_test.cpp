#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

/// Returns the item with the head and the metric of `wanted`, or null if there is none.
const json* same_metric(const json& items, const json& wanted) {
  const auto found = std::ranges::find_if(items, [&](const json& item) {
    return item["name"] == wanted["name"] && item["metric"] == wanted["metric"];
  });
  return found == items.end() ? nullptr : &*found;
}

/// Returns a description of the first difference, or "" if there is none. Integers, strings and lengths must
/// be equal; floats must agree within the tolerance. Ignores members of `found` that `wanted` does not have,
/// and metrics that `wanted` does not have.
std::string difference(const json& wanted, const json& found, const std::string& at, double tolerance) {
  const auto differ = [&] { return at + ": got " + found.dump() + ", need " + wanted.dump(); };
  if (wanted.is_object()) {
    for (const auto& [name, member] : wanted.items()) {
      if (!found.contains(name)) return at + "/" + name + ": is missing";
      if (auto inner = difference(member, found[name], at + "/" + name, tolerance); !inner.empty())
        return inner;
    }
    return {};
  }
  if (wanted.is_array()) {
    const bool of_metrics = !wanted.empty() && wanted[0].contains("metric");
    if (!found.is_array() || (!of_metrics && found.size() != wanted.size())) return differ();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::string place = at + "/" + std::to_string(i);
      const json* const item = of_metrics ? same_metric(found, wanted[i]) : &found[i];
      if (item == nullptr) return place + ": is missing";
      if (auto inner = difference(wanted[i], *item, place, tolerance); !inner.empty()) return inner;
    }
    return {};
  }
  if (wanted.is_number_float()) {
    if (!found.is_number()) return differ();
    const double want = wanted;
    return std::abs(found.get<double>() - want) <= tolerance * std::max(1.0, std::abs(want)) ? "" : differ();
  }
  return wanted == found ? "" : differ();
}

const std::string kFolder = ATTNCTL_SOURCE_DIR "/tests/golden/study/";

/// The results of a study of a bundled model, with the golden results.
struct Held {
  json found, wanted;
};

Held held(const std::string& name, const std::string& prefix, const std::vector<std::string>& options) {
  std::vector<std::string> words = {
      "study", ATTNCTL_SOURCE_DIR "/data/" + name, "--input", kFolder + "corpus.txt", "--format", "json"};
  words.insert(words.end(), options.begin(), options.end());
  const RunResult result = run_attnctl(words);
  REQUIRE(result.status == 0);
  return {json::parse(result.out), json::parse(slurp(kFolder + prefix + name + ".json"))};
}

TEST_CASE("a study of 200 sentences agrees with NumPy") {
  struct Row {
    const char* prefix;
    std::vector<std::string> options;
    std::size_t sections;
  };
  const std::vector<Row> rows = {{"", {"--batch-tokens", "300"}, 7},
                                 {"pairs-", {"--measures", "pairs,rollout", "--batch-tokens", "300"}, 2}};
  for (const std::string name : {"tiny-bert", "tiny-llama"}) {
    for (const Row& row : rows) {
      CAPTURE(name);
      CAPTURE(row.prefix);
      const auto [found, wanted] = held(name, row.prefix, row.options);
      CHECK(wanted.size() == row.sections);
      for (const auto& [section, items] : wanted.items()) {
        // Extremes come from single rows, so they have the full rounding error of a float32 pass.
        const double tolerance = section == "distributions" ? 1e-5 : 1e-6;
        CHECK(difference(items, found.at(section), section, tolerance) == "");
      }
    }
  }
}

TEST_CASE("syntax and coreference agree with an independent program") {
  struct Row {
    const char* model;
    std::vector<std::string> more;
  };
  for (const Row& row : {Row{"tiny-bert", {}}, Row{"tiny-llama", {"--fold-subtypes"}}}) {
    CAPTURE(row.model);
    const std::string data = ATTNCTL_SOURCE_DIR "/data/";
    std::vector<std::string> words = {"study",          data + row.model,
                                      "--input",        data + "treebank.conllu",
                                      "--measures",     "syntax,coreference",
                                      "--batch-tokens", "16",
                                      "--null-shuffle", "2",
                                      "--format",       "json"};
    words.insert(words.end(), row.more.begin(), row.more.end());
    const RunResult result = run_attnctl(words);
    REQUIRE(result.status == 0);
    const json found = json::parse(result.out);
    const json wanted = json::parse(slurp(kFolder + "treebank-" + row.model + ".json"));
    CHECK(wanted.size() == 3);
    for (const auto& [section, items] : wanted.items())
      CHECK(difference(items, found.at(section), section, 1e-6) == "");
  }
}

TEST_CASE("rare and shuffled tokens agree with NumPy") {
  for (const std::string name : {"tiny-bert", "tiny-llama"}) {
    CAPTURE(name);
    auto [found, wanted] =
        held(name, "rare-", {"--measures", "rare,repeats", "--null-shuffle", "2", "--batch-tokens", "500"});
    CHECK(wanted.size() == 2);
    // The ends of intervals have the rounding error of standard errors, times Student's t.
    CHECK(difference(wanted["rare"], found["rare"], "rare", 1e-5) == "");
    for (json& row : wanted["rare"]) {
      row.erase("low");
      row.erase("high");
    }
    CHECK(difference(wanted["rare"], found["rare"], "rare", 1e-6) == "");
    CHECK(difference(wanted["repeats"], found["repeats"], "repeats", 1e-6) == "");
  }
}

TEST_CASE("write ratios and massive activations agree with NumPy") {
  struct Row {
    const char* name;
    std::string model, corpus;
  };
  for (const Row& row :
       {Row{"tiny-bert", ATTNCTL_SOURCE_DIR "/data/tiny-bert", "corpus.txt"},
        Row{"tiny-llama", ATTNCTL_SOURCE_DIR "/data/tiny-llama", "corpus.txt"},
        Row{"planted", ATTNCTL_SOURCE_DIR "/tests/golden/sinks/planted/model", "residual-planted.jsonl"}}) {
    CAPTURE(row.name);
    const RunResult result = run_attnctl({"study", row.model, "--input", kFolder + row.corpus, "--measures",
                                          "residual", "--batch-tokens", "300", "--format", "json"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const json found = json::parse(result.out);
    const json wanted = json::parse(slurp(kFolder + "residual-" + row.name + ".json"));
    CHECK(wanted.size() == 3);
    for (const auto& [section, items] : wanted.items()) {
      // The largest ratio is that of a single value, so it has the full rounding error of a float32 pass.
      const double tolerance = section == "writes" ? 1e-6 : 1e-5;
      CHECK(difference(items, found.at(section), section, tolerance) == "");
    }
  }
}

TEST_CASE("the probe and the roles over 200 sentences agree with NumPy") {
  for (const std::string name : {"tiny-bert", "tiny-llama"}) {
    CAPTURE(name);
    auto [found, wanted] = held(name, "roles-", {"--measures", "probe,roles", "--batch-tokens", "500"});
    for (const char* const section : {"probe", "roles"}) {
      // The ends of intervals have the rounding error of standard errors, times Student's t.
      CHECK(difference(wanted.at(section), found.at(section), section, 1e-5) == "");
      for (json& row : wanted.at(section)) {
        for (const char* const end : {"low", "high"}) row.erase(end);
      }
      CHECK(difference(wanted.at(section), found.at(section), section, 1e-6) == "");
    }
  }
}

TEST_CASE("quantiles are ascending and between the extremes") {
  const json found = held("tiny-llama", "", {"--measures", "metrics"}).found;
  for (const json& row : found.at("distributions")) {
    CAPTURE(row.dump());
    double before = row["minimum"];
    for (const char* name : {"q05", "q25", "median", "q75", "q95", "maximum"}) {
      CHECK(before <= row[name].get<double>());
      before = row[name];
    }
  }
}

}  // namespace
}  // namespace attnctl::test
