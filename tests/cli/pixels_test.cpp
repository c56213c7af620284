// Models that read images (tests/golden/image_cases.py).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/golden.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

const std::string kVit = "tests/golden/vit";

std::string npy_of(const std::string& shape, const std::vector<float>& values) {
  return npy(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", shape),
             bytes_of(values));
}

/// Returns image `number` of the golden.
std::vector<float> image(const Golden& golden, std::size_t number) {
  const GoldenArray array = golden.array(fmt::format("pixels_{}", number));
  return {array.values.begin(), array.values.end()};
}

json analyze(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "analyze");
  arguments.insert(arguments.end(), {"--format", "json"});
  const RunResult result = run_attnctl(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

TEST_CASE("--pixels: a batch of images gives the patterns of the reference, and tokens that name patches") {
  const Golden golden(std::string(ATTNCTL_SOURCE_DIR) + "/" + kVit);
  std::vector<float> both = image(golden, 0);
  const std::vector<float> second = image(golden, 1);
  const TempDir folder;
  const std::string one = folder.write("one.npy", npy_of("3, 12, 12", second)).string();
  both.insert(both.end(), second.begin(), second.end());
  const std::string batch = folder.write("batch.npy", npy_of("2, 3, 12, 12", both)).string();
  const json document = analyze({kVit, "--pixels", batch, "--include", "patterns"});
  REQUIRE(document["inputs"].size() == 2);
  CHECK(document["inputs"][0]["tokens"][0] == "[CLS]");
  CHECK(document["inputs"][0]["tokens"][6] == "patch 1,2");
  CHECK(document["inputs"][1]["length"] == 10);
  CHECK_FALSE(document["inputs"][0].contains("ids"));
  const GoldenArray want = golden.array("pattern_1");
  std::size_t next = 0;
  for (const json& pattern : document["patterns"]) {
    if (pattern["input"] != "1") continue;
    for (const json& row : pattern["weight"]) {
      for (const json& weight : row) CHECK(std::abs(weight.get<double>() - want.values.at(next++)) < 1e-6);
    }
  }
  CHECK(next == want.values.size());
  const json alone = analyze({kVit, "--pixels", one, "--include", "patterns"});
  const json& of_batch = document["patterns"][6]["weight"];
  for (std::size_t i = 0; i < of_batch.size(); ++i) {
    for (std::size_t j = 0; j < of_batch[i].size(); ++j) {
      const double weight = alone["patterns"][0]["weight"][i][j].get<double>();
      CHECK(std::abs(weight - of_batch[i][j].get<double>()) < 1e-6);
    }
  }
}

TEST_CASE("images work as inputs of metrics, --from and verify") {
  const Golden golden(std::string(ATTNCTL_SOURCE_DIR) + "/" + kVit);
  const TempDir folder;
  const std::string x = folder.write("x.npy", npy_of("3, 12, 12", image(golden, 0))).string();
  const json document = analyze({kVit, "--pixels", x, "--from", "patch 1,2", "--to", "0"});
  CHECK(document["attention_from"][0]["query"] == 6);
  CHECK(document["heads"][0]["special_token"].get<double>() > 0);  // the class token
  CHECK(document["heads"][0]["special_token"] == document["heads"][0]["first_token"]);
  for (const char* model : {"vit", "vit-old", "vit-native"}) {
    const RunResult result =
        run_attnctl({"verify", std::string("tests/golden/") + model, "--format", "json"});
    CHECK(result.status == 0);
    CHECK(json::parse(result.out)["inputs"][0].contains("length"));
  }
}

TEST_CASE("images of another shape, and models that do not read images, are rejected") {
  const TempDir folder;
  const auto file = [&](const std::string& shape, std::size_t count) {
    return folder.write("x.npy", npy_of(shape, std::vector<float>(count))).string();
  };
  check_command_refuses({"analyze", kVit, "--pixels", file("3, 12, 10", 360)},
                        {.parts = {"x.npy", "[3, 12, 10]", "[3, 12, 12] or [batch, 3, 12, 12]"}});
  check_command_refuses({"analyze", kVit, "--pixels", file("1, 12, 12", 144)}, {.parts = {"[3, 12, 12]"}});
  check_command_refuses({"analyze", kVit, "--pixels", file("0, 3, 12, 12", 0)},
                        {.parts = {"[0, 3, 12, 12]"}});
  check_command_refuses({"analyze", kVit, "--pixels", file("12, 12", 144)}, {.parts = {"[12, 12]"}});
  const std::string bytes =
      folder
          .write("u.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 12, 12), }",
                              std::string(432, '\7')))
          .string();
  check_command_refuses({"analyze", kVit, "--pixels", bytes}, {.parts = {"u.npy", "U8", "floating-point"}});
  check_command_refuses({"analyze", kVit, "--ids", "1,2"}, {.parts = {"images", "--pixels"}});
  check_command_refuses({"analyze", "data/tiny-bert", "--pixels", file("3, 12, 12", 432)},
                        {.parts = {"--pixels", "does not read images"}});
  check_command_refuses({"analyze", kVit, "--pixels", "no-such.npy"}, {.status = Status::environment});
}

}  // namespace
}  // namespace attnctl::test
