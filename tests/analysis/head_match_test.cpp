#include "analysis/similarity/head_match.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "forward/run.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::analysis {
namespace {

using test::Golden;
using test::GoldenArray;
using test::MemoryModel;

TEST_CASE("the best assignment has the sum that SciPy finds") {
  const Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/assignments/golden.npz");
  std::size_t cases = 0;
  for (; golden.has("values_" + std::to_string(cases)); ++cases) {
    CAPTURE(cases);
    const GoldenArray values = golden.array("values_" + std::to_string(cases));
    OwnedMatrix<double> matrix(values.shape[0], values.shape[1]);
    std::ranges::copy(values.values, matrix.values().begin());
    const std::vector<std::size_t> columns = best_assignment(matrix.view());
    REQUIRE(columns.size() == matrix.rows());
    CHECK(std::set<std::size_t>(columns.begin(), columns.end()).size() == columns.size());
    double sum = 0;
    for (std::size_t r = 0; r < columns.size(); ++r) sum += matrix(r, columns[r]);
    CHECK(std::abs(sum - golden.array("sum_" + std::to_string(cases)).values[0]) <= 1e-12);
  }
  CHECK(cases == 7);
}

TEST_CASE("an assignment leaves out undefined values where it can, and needs enough columns") {
  OwnedMatrix<double> values(2, 2);
  values(0, 0) = kUndefined;
  values(0, 1) = -0.5;
  values(1, 0) = -1;
  values(1, 1) = 0.9;
  CHECK(best_assignment(values.view()) == std::vector<std::size_t>{1, 0});
  CHECK_THROWS_AS((void)best_assignment(OwnedMatrix<double>(3, 2).view()), std::logic_error);
  CHECK(best_assignment(OwnedMatrix<double>(0, 2).view()).empty());
}

TEST_CASE("heads that are exchanged are found by their weights, beyond all random matches") {
  const MemoryModel a = MemoryModel::golden("bert");  // two layers of three heads of width 8
  MemoryModel b = a;
  constexpr std::size_t order[] = {2, 0, 1};  // head h of b is head order[h] of a
  for (auto& [name, tensor] : b.tensors) {
    if (name.find("layer.1.attention") == std::string::npos || name.find("LayerNorm") != std::string::npos)
      continue;
    const bool output = name.find("attention.output") != std::string::npos;
    const std::size_t columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    if (output && tensor.shape.size() == 1) continue;
    const std::vector<std::byte> old = tensor.bytes;
    for (std::size_t r = 0; r < tensor.shape[0]; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        std::size_t from_r = r, from_c = c;
        std::size_t& moved = output ? from_c : from_r;
        moved = order[moved / 8] * 8 + moved % 8;
        std::copy_n(old.begin() + static_cast<std::ptrdiff_t>((from_r * columns + from_c) * sizeof(float)),
                    sizeof(float),
                    tensor.bytes.begin() + static_cast<std::ptrdiff_t>((r * columns + c) * sizeof(float)));
      }
    }
  }
  const model::Model of_a = a.bound(), of_b = b.bound();
  const std::vector<model::HeadId> heads = forward::Selection::all(of_a.config()).heads;
  Pool pool(2);
  const OwnedMatrix<double> similarity = circuit_similarities(of_a, heads, of_b, heads, pool);
  const HeadMatch match = match_heads(similarity.view(), 0);
  CHECK(match.partner == std::vector<std::size_t>{0, 1, 2, 4, 5, 3});
  CHECK(match.score == doctest::Approx(1));
  CHECK(match.p_value < 0.01);
  CHECK(match.null_mean < 0.5);
  CHECK(similarity(0, 0) == doctest::Approx(1));
}

}  // namespace
}  // namespace attnctl::analysis
