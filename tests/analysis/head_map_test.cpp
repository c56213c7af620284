#include "analysis/similarity/head_map.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/golden.hpp"

namespace attnctl::analysis {
namespace {

using test::Golden;
using test::GoldenArray;
using Matrix = OwnedMatrix<double>;

const std::filesystem::path kGoldens = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/subspaces";

Matrix square(const GoldenArray& array) {
  Matrix matrix(array.shape.at(0), array.shape.at(1));
  std::ranges::copy(array.values, matrix.values().begin());
  return matrix;
}

/// Checks the linkage against the rows of SciPy's linkage matrix: first, second, distance, size.
void check_linkage(const Linkage& linkage, const GoldenArray& rows, const std::vector<std::int64_t>& leaves) {
  REQUIRE(linkage.merges.size() == rows.shape.at(0));
  for (std::size_t i = 0; i < linkage.merges.size(); ++i) {
    const ClusterMerge& merge = linkage.merges[i];
    CHECK(static_cast<double>(merge.first) == rows.values[i * 4]);
    CHECK(static_cast<double>(merge.second) == rows.values[i * 4 + 1]);
    CHECK(merge.distance == doctest::Approx(rows.values[i * 4 + 2]).epsilon(1e-9));
    CHECK(static_cast<double>(merge.size) == rows.values[i * 4 + 3]);
  }
  REQUIRE(linkage.leaves.size() == leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    CHECK(linkage.leaves[i] == static_cast<std::size_t>(leaves[i]));
  }
}

TEST_CASE("average linkage breaks ties as SciPy does") {
  const Golden golden(kGoldens / "ties");
  for (int i = 0; i < 24; ++i) {
    CAPTURE(i);
    const std::string number = std::to_string(i);
    const Matrix distances = square(golden.array("distances_" + number));
    check_linkage(average_linkage(distances.view()), golden.array("linkage_" + number),
                  golden.integers("leaves_" + number));
  }
}

TEST_CASE("trees and maps of heads equal those of SciPy and NumPy") {
  for (const char* name : {"tiny-llama", "tiny-bert", "llama", "gpt2"}) {
    const Golden golden(kGoldens / name);
    for (const std::string circuit : {"qk", "ov"}) {
      CAPTURE(name);
      CAPTURE(circuit);
      const Matrix similarity = square(golden.array(circuit + "_similarity"));
      const std::vector<model::HeadId> heads(similarity.rows());
      const HeadMap map = map_heads(heads, similarity.view());
      check_linkage(map.linkage, golden.array(circuit + "_linkage"), golden.integers(circuit + "_leaves"));
      const GoldenArray points = golden.array(circuit + "_points");
      REQUIRE(map.map.points.values().size() == points.values.size());
      for (std::size_t i = 0; i < points.values.size(); ++i) {
        CHECK(std::abs(map.map.points.values()[i] - points.values[i]) < 1e-8);
      }
      CHECK(map.map.stress.value() ==
            doctest::Approx(golden.array(circuit + "_stress").values[0]).epsilon(1e-9));
      CHECK(map.map.share.value() ==
            doctest::Approx(golden.array(circuit + "_share").values[0]).epsilon(1e-9));
    }
  }
}

/// Returns the distances between the corners of a rectangle 3 by 4, in the order 0, 1, 3, 2 around it.
Matrix rectangle() {
  Matrix distances(4, 4);
  const double x[] = {0, 3, 0, 3};
  const double y[] = {0, 0, 4, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) distances(i, j) = std::hypot(x[i] - x[j], y[i] - y[j]);
  }
  return distances;
}

TEST_CASE("distances of points in a plane are drawn without stress") {
  const Matrix distances = rectangle();
  const PlanarMap map = classical_mds(distances.view());
  CHECK(map.stress.value() < 1e-12);
  CHECK(map.share.value() == doctest::Approx(1));
  // The longer side is the first coordinate.
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(map.points(i, 0) == doctest::Approx(i < 2 ? map.points(0, 0) : -map.points(0, 0)));
    CHECK(std::abs(map.points(i, 0)) == doctest::Approx(2));
    CHECK(std::abs(map.points(i, 1)) == doctest::Approx(1.5));
  }
}

TEST_CASE("heads without a similarity are left out and come last") {
  const std::vector<model::HeadId> heads{{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  Matrix similarity(4, 4);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) similarity(i, j) = i == 1 || j == 1 ? nan : (i == j ? 1 : 0.25);
  }
  similarity(2, 3) = similarity(3, 2) = 0.75;
  const HeadMap map = map_heads(heads, std::as_const(similarity).view());
  CHECK(map.heads == std::vector<model::HeadId>{{0, 0}, {0, 2}, {0, 3}});
  CHECK(map.undefined == std::vector<model::HeadId>{{0, 1}});
  REQUIRE(map.linkage.merges.size() == 2);
  CHECK(map.linkage.merges[0].distance == 0.25);
  CHECK(map.linkage.merges[1].distance == 0.75);
  CHECK(map.order().back() == model::HeadId{0, 1});
  CHECK(map.map.points.rows() == 3);
}

TEST_CASE("few heads") {
  const std::vector<model::HeadId> heads{{2, 1}, {2, 4}};
  Matrix similarity(2, 2);
  similarity(0, 0) = similarity(1, 1) = 1;
  similarity(0, 1) = similarity(1, 0) = -0.5;
  const HeadMap pair = map_heads(heads, std::as_const(similarity).view());
  CHECK(pair.linkage.merges.at(0).distance == 1.5);
  CHECK(std::abs(pair.map.points(0, 0)) == doctest::Approx(0.75));
  CHECK(pair.map.points(1, 0) == doctest::Approx(-pair.map.points(0, 0)));
  CHECK(pair.map.points(0, 1) == doctest::Approx(0));
  CHECK(pair.map.stress.value() < 1e-12);

  const std::span<const model::HeadId> one = std::span(heads).first(1);
  const HeadMap single = map_heads(one, std::as_const(similarity).view().row_range(0, 1).col_range(0, 1));
  CHECK(single.order() == std::vector<model::HeadId>{{2, 1}});
  CHECK(single.linkage.merges.empty());
  CHECK_FALSE(single.map.stress.has_value());
  CHECK(map_heads({}, {}).order().empty());
}

}  // namespace
}  // namespace attnctl::analysis
