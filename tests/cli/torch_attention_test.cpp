#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/bytes.hpp"
#include "support/golden.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace {

using attnctl::test::Golden;
using attnctl::test::GoldenArray;
using attnctl::test::RunResult;
using attnctl::test::TempDir;

/// Returns an NPY file of float32, or of bool if `may_be_bool` and all values are 0 or 1.
std::string npy_of(const GoldenArray& array, bool may_be_bool) {
  std::string extents;
  for (const std::size_t extent : array.shape) extents += fmt::format("{}, ", extent);
  const bool boolean =
      may_be_bool && std::ranges::all_of(array.values, [](double x) { return x == 0 || x == 1; });
  std::string data;
  if (boolean) {
    for (const double value : array.values) data += value == 0 ? '\0' : '\1';
  } else {
    data = attnctl::test::bytes_of(std::vector<float>(array.values.begin(), array.values.end()));
  }
  const std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                             boolean ? "|b1" : "<f4", extents);
  return attnctl::test::npy(dictionary, data);
}

/// Stacks the arrays NAME_0, NAME_1, ... along a new first axis.
GoldenArray stacked(const Golden& golden, const std::string& name) {
  GoldenArray all;
  for (std::size_t i = 0; i < golden.inputs(); ++i) {
    const GoldenArray one = golden.array(fmt::format("{}_{}", name, i));
    all.shape = one.shape;
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
  }
  all.shape.insert(all.shape.begin(), golden.inputs());
  return all;
}

/// Returns the command-line options for all inputs of a golden, and writes their arrays to `folder`.
std::vector<std::string> options_of(const Golden& golden, const TempDir& folder) {
  std::vector<std::string> options;
  const auto give = [&](const std::string& name, const std::string& option) {
    if (!golden.has(name + "_0")) return;
    // A mask [n, m] applies to all inputs. Masks per head are [batch, h, n, m].
    const GoldenArray first = golden.array(name + "_0");
    const bool shared = name == "mask" && first.shape.size() == 2;
    const std::string bytes = npy_of(shared ? first : stacked(golden, name), name.ends_with("mask"));
    options.push_back(option);
    options.push_back(folder.write(name + ".npy", bytes).string());
  };
  give("embeddings", "--embeddings");
  give("key_inputs", "--keys");
  give("value_inputs", "--values");
  give("mask", "--mask");
  give("key_mask", "--key-mask");
  return options;
}

double largest_difference(const GoldenArray& got, const GoldenArray& want) {
  REQUIRE(got.shape == want.shape);
  double worst = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double distance = std::abs(got.values[i] - want.values[i]);
    if (!(distance <= worst)) worst = distance;  // NaN remains, so that the test fails
  }
  return worst;
}

}  // namespace

TEST_CASE("analyze gives the weights and outputs of torch's attention from its state and inputs") {
  std::size_t cases = 0;
  for (const auto& directory : attnctl::test::golden_models()) {
    const std::string name = directory.filename().string();
    if (!name.starts_with("mha-") && !name.starts_with("sdpa-")) continue;
    CAPTURE(name);
    ++cases;
    const Golden golden(directory);
    const TempDir folder;
    std::vector<std::string> arguments = {"analyze",   directory.string(),
                                          "--include", "patterns,output",
                                          "-o",        (folder.path() / "golden.npz").string()};
    for (std::string& option : options_of(golden, folder)) arguments.push_back(std::move(option));
    const RunResult run = attnctl::test::run_attnctl(arguments);
    REQUIRE_MESSAGE(run.status == 0, run.err);
    const Golden got(folder.path());
    REQUIRE(got.inputs() == golden.inputs());
    for (std::size_t i = 0; i < golden.inputs(); ++i) {
      CAPTURE(i);
      for (const std::string kind : {"pattern", "output"}) {
        const std::string array = fmt::format("{}_{}", kind, i);
        CHECK(largest_difference(got.array(array), golden.array(array)) <=
              golden.array("bound_" + kind).values.at(0));
      }
    }
  }
  CHECK(cases == 15);
}

TEST_CASE("--to names positions of separate keys, also if there are more keys than queries") {
  const std::string model = "tests/golden/mha-cross";
  const Golden golden(model);  // 5 queries, 7 keys
  const TempDir folder;
  std::vector<std::string> arguments = {"analyze", model, "--from", "1", "--to", "6,7", "--format", "json"};
  for (std::string& option : options_of(golden, folder)) arguments.push_back(std::move(option));
  const RunResult run = attnctl::test::run_attnctl(arguments);
  REQUIRE_MESSAGE(run.status == 0, run.err);
  CHECK_MESSAGE(run.err.find("--to: \"7\" is not in input") != std::string::npos, run.err);
  const auto answer = nlohmann::json::parse(run.out).at("attention_from").at(1);  // head 0.1
  CHECK(answer.at("top").at(0).at("token").is_null());
  REQUIRE(answer.at("to").size() == 1);
  const double want = golden.array("pattern_0").values.at((5 + 1) * 7 + 6);  // head 1, query 1, key 6
  CHECK(answer.at("to").at(0).at("weight").get<double>() == doctest::Approx(want).epsilon(1e-4));
}
