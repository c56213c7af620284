#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "support/bytes.hpp"
#include "support/golden.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::checkpoint::Checkpoint;
using attnctl::test::Golden;
using attnctl::test::GoldenArray;
using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using attnctl::test::TempDir;

namespace {

/// The NPZ that `weights` writes for a model.
struct WeightsNpz {
  TempDir folder;
  RunResult result;
  std::unique_ptr<Checkpoint> arrays;

  explicit WeightsNpz(const std::string& model) {
    const std::string path = (folder.path() / "w.npz").string();
    result = run_attnctl({"weights", model, "-o", path});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    attnctl::Warnings warnings;
    arrays = attnctl::checkpoint::open_checkpoint(path, warnings);
  }

  [[nodiscard]] bool has(const std::string& name) const { return arrays->find(name) != Checkpoint::npos; }
  [[nodiscard]] GoldenArray array(const std::string& name) const {
    const std::size_t index = arrays->find(name);
    REQUIRE_MESSAGE(index != Checkpoint::npos, name);
    const attnctl::checkpoint::TensorView tensor = arrays->tensor(index);
    GoldenArray array{tensor.shape, {}};
    array.values.resize(tensor.bytes.size() / attnctl::size_of(tensor.dtype));
    attnctl::convert(tensor.dtype, tensor.bytes, array.values);
    return array;
  }
};

void check_array(const GoldenArray& got, const GoldenArray& want, double bound) {
  REQUIRE(got.shape == want.shape);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    CHECK(std::abs(got.values[i] - want.values[i]) <= bound * std::max(1.0, std::abs(want.values[i])));
  }
}

}  // namespace

TEST_CASE("the NPZ of the weights analyses equals every golden, in shape and values") {
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    const Golden golden(directory);
    const WeightsNpz npz(directory.string());
    for (const std::string component : {"", "enc", "dec", "cross"}) {
      const std::string prefix = component.empty() ? "" : component + "_";
      const std::string suffix = component.empty() ? "" : "_" + component;
      for (const std::string circuit : {"qk", "ov"}) {
        CHECK(npz.has(prefix + circuit + "_similarity") == golden.has(circuit + "_similarity" + suffix));
        for (const std::string what : {"_similarity", "_effective_rank", "_singular_values"}) {
          const std::string name = circuit + what + suffix;
          CAPTURE(name);
          if (golden.has(name)) check_array(npz.array(prefix + circuit + what), golden.array(name), 1e-5);
        }
      }
    }
  }
}

TEST_CASE("singular values that do not fit into the NPZ give a warning and are in the CSV") {
  const std::string model = "tests/golden/attention";  // 3 heads, d_head 4, d_value 5
  const WeightsNpz npz(model);
  CHECK(npz.array("ov_singular_values").shape == attnctl::Shape{1, 3, 4});
  CHECK(npz.result.err ==
        "attnctl: warning: ov_singular_values has the first 4 of 5 values of each head (d_head is smaller "
        "than d_value); "
        "--format csv writes them all\n");
  const RunResult csv = run_attnctl({"weights", model, "--format", "csv", "--table", "singular_values"});
  CHECK(csv.out.find("\r\nov,,0,2,0.2,4,") != std::string::npos);
  CHECK(csv.err.empty());
}

TEST_CASE("an NPZ has k singular values of QK, zeros where the inputs are narrower than the heads") {
  const TempDir folder;
  using attnctl::test::bytes_of;
  using attnctl::test::npy;
  const std::string wide =  // [2, 3]: one head with d 2, k 3
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", bytes_of<float>({1, 0, 0, 0, 2, 0}));
  folder.write("m/model.npz", attnctl::test::zip({{.name = "W_q.npy", .data = wide}}));
  folder.write("m/config.json", R"({"model_type": "attention", "heads": 1})");
  const WeightsNpz npz((folder.path() / "m").string());
  const GoldenArray values = npz.array("qk_singular_values");
  CHECK(values.shape == attnctl::Shape{1, 1, 3});
  CHECK(values.values == std::vector<double>{4, 1, 0});
}

TEST_CASE("a picture of weights shows similarities, also if only directions are included") {
  for (const char* const include : {"weights", "directions"}) {
    CAPTURE(include);
    const RunResult result =
        run_attnctl({"weights", "data/tiny-bert", "--include", include, "--format", "svg"});
    CHECK(result.status == 0);
    CHECK(result.out.find("Subspace Similarity of Heads") != std::string::npos);
  }
}
