#include "cli/commands/verify.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "model/families/presets.hpp"
#include "support/refusal.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using attnctl::test::TempDir;
using nlohmann::json;

namespace {

std::vector<double> load(attnctl::checkpoint::Checkpoint& npz, const std::string& name) {
  const std::size_t index = npz.find(name);
  REQUIRE_MESSAGE(index != attnctl::checkpoint::Checkpoint::npos, name);
  const attnctl::checkpoint::TensorView tensor = npz.tensor(index);
  std::vector<double> values(tensor.bytes.size() / attnctl::size_of(tensor.dtype));
  attnctl::convert(tensor.dtype, tensor.bytes, values);
  return values;
}

std::unique_ptr<attnctl::checkpoint::Checkpoint> open(const std::filesystem::path& path) {
  attnctl::Warnings warnings;
  return attnctl::checkpoint::open_checkpoint(path, warnings);
}

}  // namespace

TEST_CASE("the bundled models agree with their references, patterns and weights") {
  for (const std::string name : {"tiny-llama", "tiny-bert"}) {
    CAPTURE(name);
    const std::string golden = "tests/golden/bundled/" + name + ".npz";
    const auto want = open(golden);
    const RunResult result =
        run_attnctl({"verify", "data/" + name, "--against", golden, "--tolerance",
                     fmt::format("{}", 1.25 * load(*want, "bound_pattern").front()), "--format", "json"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const json document = json::parse(result.out);
    CHECK(document["ok"] == true);
    const auto against_file = std::count_if(document["comparisons"].begin(), document["comparisons"].end(),
                                            [&](const json& each) { return each["reference"] == golden; });
    CHECK(against_file == document["model"]["layers"].get<int>());

    const TempDir folder;
    const std::string npz = (folder.path() / "weights.npz").string();
    REQUIRE(run_attnctl({"weights", "data/" + name, "-o", npz}).status == 0);
    const auto got = open(npz);
    for (const std::string circuit : {"qk", "ov"}) {
      const std::vector<double> similarity = load(*got, circuit + "_similarity");
      const std::vector<double> similarity_want = load(*want, circuit + "_similarity");
      REQUIRE(similarity.size() == similarity_want.size());
      for (std::size_t i = 0; i < similarity.size(); ++i)
        CHECK(std::abs(similarity[i] - similarity_want[i]) <= 1e-5);
      const std::vector<double> rank = load(*got, circuit + "_effective_rank");
      const std::vector<double> rank_want = load(*want, circuit + "_effective_rank");
      REQUIRE(rank.size() == rank_want.size());
      for (std::size_t i = 0; i < rank.size(); ++i) CHECK(std::abs(rank[i] / rank_want[i] - 1) <= 1e-5);
    }
  }
}

TEST_CASE("verify compares with float64 by default, and fails with status 7") {
  const RunResult good =
      run_attnctl({"verify", "tests/golden/llama", "--tolerance", "1e-5", "--format", "json"});
  REQUIRE_MESSAGE(good.status == 0, good.err);
  const json document = json::parse(good.out);
  CHECK(document["inputs"][0]["length"].get<int>() > 1);
  CHECK(document["comparisons"].size() > 2);
  const RunResult strict = run_attnctl({"verify", "tests/golden/llama", "--tolerance", "0"});
  CHECK(strict.status == 7);
  CHECK(std::count(strict.err.begin(), strict.err.end(), '\n') == 1);
  CHECK_MESSAGE(strict.err.find("exceed the tolerance 0") != std::string::npos, strict.err);
  CHECK(json::parse(strict.out)["ok"] == false);
  const RunResult warned = run_attnctl({"verify", "data/tiny-bert", "The", "cat", "--tolerance", "0"});
  CHECK(warned.status == 7);
  CHECK_MESSAGE(warned.err.find("warning: got 2 texts of one word each") != std::string::npos, warned.err);
  // The reference belongs to another model, so the numbers differ.
  const RunResult other =
      run_attnctl({"verify", "tests/golden/llama", "--against", "tests/golden/llama-yarn/golden.npz"});
  CHECK((other.status == 7 || other.status == 3));
}

TEST_CASE("the layers of a reference file are integers") {
  using namespace attnctl;
  const model::ModelConfig config = model::bare_config({.d_model = 4, .heads = 2});
  for (const double layer : {0.5, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    checkpoint::Checkpoint file;
    const MappedFile& memory = file.map("reference.npz", std::as_bytes(std::span(&layer, 1)));
    file.add(memory, {"layers", DType::f64, {1}}, memory.bytes());
    test::check_refusal([&] { (void)cli::read_reference(file, "reference.npz", config); }, Status::bad_input,
                        {"reference.npz: \"layers\": got ", ", need integers"});
  }
}
