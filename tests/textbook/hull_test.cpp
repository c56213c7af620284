#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "checkpoint/checkpoint.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

struct Points {
  std::size_t dimensions;
  std::vector<double> values;

  [[nodiscard]] std::size_t size() const { return values.size() / dimensions; }
  [[nodiscard]] MatrixView<const double> view() const { return {values.data(), size(), dimensions}; }
};

std::vector<HullPoint> decide(const Points& points) {
  Pool pool(2);
  return hull_points(points.view(), pool);
}

std::vector<bool> vertices(const std::vector<HullPoint>& result) {
  std::vector<bool> flags;
  for (const HullPoint& point : result) flags.push_back(point.vertex);
  return flags;
}

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Returns the fault of a proof, checked in double; empty if there is none.
std::string flaw_of_witness(const Points& points, std::size_t index, const HullPoint& place) {
  const auto p = points.view().row(index);
  double margin = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < points.size(); ++j) {
    if (j == index) continue;
    margin = std::min(margin, dot(place.witness.values, p) - dot(place.witness.values, points.view().row(j)));
  }
  if (!(margin > 0)) return "another point is as high";
  if (std::abs(margin - place.margin.value()) > 1e-9 * std::max(1.0, margin)) return "the margin is wrong";
  for (const double q : place.witness.values) {
    if (std::abs(q) > 1) return "a component above 1";
  }
  return "";
}

std::string flaw_of_combination(const Points& points, std::size_t index, const HullPoint& place) {
  std::vector<double> sum(points.dimensions);
  double total = 0;
  if (place.combination.size() > points.dimensions + 1) return "too many points";
  for (const HullWeight& part : place.combination) {
    if (part.point == index) return "the point itself";
    if (!(part.weight > 0)) return "a weight that is not positive";
    total += part.weight;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.weight * points.view()(part.point, i);
  }
  if (std::abs(total - 1) > 1e-12) return "weights do not sum to 1";
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (std::abs(sum[i] - points.view()(index, i)) > 1e-11) return "a different sum";
  }
  return "";
}

std::string flaw_of_support(const Points& points, std::size_t index, const HullPoint& place) {
  if (place.support.values.empty()) return place.ties.empty() ? "" : "ties without a query";
  const double most = dot(place.support.values, points.view().row(index));
  bool lower = false;
  double scale = 1;
  for (const double q : place.support.values) scale = std::max(scale, std::abs(q));
  for (std::size_t j = 0; j < points.size(); ++j) {
    if (j == index) continue;
    const double gap = (most - dot(place.support.values, points.view().row(j))) / scale;
    const bool tied = std::count(place.ties.begin(), place.ties.end(), j) > 0;
    if (tied ? std::abs(gap) > 1e-9 : !(gap > 0)) return tied ? "no tie" : "not the maximum";
    lower = lower || !tied;
  }
  for (const HullWeight& part : place.combination) {
    if (std::count(place.ties.begin(), place.ties.end(), part.point) == 0) return "a term that does not tie";
  }
  return lower ? "" : "nothing is lower";
}

void check_proofs(const Points& points, const std::vector<HullPoint>& result) {
  for (std::size_t p = 0; p < result.size(); ++p) {
    CAPTURE(p);
    if (result[p].vertex) {
      CHECK(flaw_of_witness(points, p, result[p]).empty());
    } else {
      CHECK(flaw_of_combination(points, p, result[p]).empty());
      CHECK(flaw_of_support(points, p, result[p]).empty());
    }
  }
}

TEST_CASE("hull: the mean of two keys ties with both and beats neither") {
  const Points keys{2, {10, 0, 0, 10, 5, 5, 2, 2}};
  const std::vector<HullPoint> result = decide(keys);
  CHECK(vertices(result) == std::vector<bool>{true, true, false, true});
  CHECK(result[0].witness.values == std::vector<double>{1, -1});
  CHECK(result[1].witness.values == std::vector<double>{-1, 1});
  CHECK(result[3].witness.values == std::vector<double>{-1, -1});
  CHECK(result[3].margin == 6);
  const HullPoint& mean = result[2];
  REQUIRE(mean.combination.size() == 2);
  CHECK(mean.combination[0].point == 0);
  CHECK(mean.combination[0].exact == "1/2");
  CHECK(mean.combination[1].point == 1);
  CHECK(mean.combination[1].weight == 0.5);
  CHECK(mean.support.values == std::vector<double>{1, 1});
  CHECK(mean.support.exact.empty());
  CHECK(mean.ties == std::vector<std::size_t>{0, 1});
}

TEST_CASE("hull: 1,000 sets agree with linear programming in SciPy, and every proof holds") {
  Warnings warnings;
  const auto file = checkpoint::open_checkpoint(ATTNCTL_SOURCE_DIR "/tests/golden/hull/golden.npz", warnings);
  const auto values = [&](const char* name) {
    const checkpoint::TensorView tensor = file->tensor(file->find(name));
    std::vector<double> numbers(tensor.bytes.size() / size_of(tensor.dtype));
    convert(tensor.dtype, tensor.bytes, std::span<double>(numbers));
    return numbers;
  };
  const std::vector<double> sets = values("sets");
  const std::vector<double> all = values("points");
  const std::vector<double> expected = values("vertex");
  std::size_t first = 0;
  std::size_t point = 0;
  std::size_t kinds[4] = {};
  for (std::size_t s = 0; s < sets.size(); s += 2) {
    CAPTURE(s / 2);
    const auto m = static_cast<std::size_t>(sets[s]);
    const auto d = static_cast<std::size_t>(sets[s + 1]);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    const Points points{d, {begin, begin + static_cast<std::ptrdiff_t>(m * d)}};
    const std::vector<HullPoint> result = decide(points);
    for (std::size_t p = 0; p < m; ++p) {
      CAPTURE(p);
      CHECK(result[p].vertex == (expected[point++] == 1));
      ++kinds[result[p].vertex ? 0 : result[p].twin ? 1 : result[p].support.values.empty() ? 2 : 3];
    }
    check_proofs(points, result);
    first += m * d;
  }
  REQUIRE(point == expected.size());
  for (const std::size_t kind : kinds) CHECK(kind > 100);
}

TEST_CASE("hull: cases that rounding would decide wrongly") {
  const double tiny = 0x1p-60;
  const double next = std::nextafter(0.5, 1);
  struct Row {
    std::string about;
    Points points;
    std::vector<bool> vertex;
  };
  const std::vector<Row> rows = {
      {"one unit in the last place beyond an edge", {2, {1, 0, 0, 1, next, 0.5, 0, 0}}, {1, 1, 1, 1}},
      {"one unit in the last place inside an edge",
       {2, {1, 0, 0, 1, std::nextafter(0.5, 0), 0.5, 0, 0}},
       {1, 1, 0, 1}},
      {"far below the resolution of the others", {2, {0, 0, 1, 0, -tiny, -tiny, 0, 1}}, {0, 1, 1, 1}},
      {"very different magnitudes", {2, {1e300, 0, 0, 1e-300, 5e299, 5e-301, -1, -1}}, {1, 1, 0, 1}},
      {"far from the origin",
       {2, {1e15, 1e15, 1e15 + 2, 1e15, 1e15 + 1, 1e15 + 0.125, 1e15 + 1, 1e15}},
       {1, 1, 1, 0}},
      {"three times the double 0.1 is above 0.3", {1, {0, 0.1 + 0.1 + 0.1, 0.3}}, {1, 1, 0}},
      {"minus zero equals zero", {1, {0.0, -0.0, 1}}, {0, 0, 1}},
      {"one point", {3, {1, 2, 3}}, {1}},
      {"all equal", {2, {1, 2, 1, 2, 1, 2}}, {0, 0, 0}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.about);
    CHECK(vertices(decide(row.points)) == row.vertex);
  }
}

TEST_CASE("hull: a key inside many others in 24 dimensions, with the same result on one thread") {
  Random random(5);
  Points points{24, std::vector<double>(std::size_t{24} * 80)};
  for (double& value : points.values) value = static_cast<double>(static_cast<float>(random.normal()));
  for (std::size_t i = 0; i < 24; ++i) {
    double sum = 0;
    for (std::size_t j = 1; j < 80; ++j) sum += points.values[j * 24 + i];
    points.values[i] = static_cast<double>(static_cast<float>(sum / 79));
  }
  const std::vector<HullPoint> result = decide(points);
  check_proofs(points, result);
  CHECK_FALSE(result[0].vertex);
  CHECK(result[0].support.values.empty());
  Pool one(1);
  const std::vector<HullPoint> again = hull_points(points.view(), one);
  for (std::size_t p = 0; p < result.size(); ++p) {
    CHECK(result[p].vertex == again[p].vertex);
    CHECK(result[p].witness.values == again[p].witness.values);
  }
  points.values[7] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(static_cast<void>(hull_points(points.view(), one)), Error);
}

}  // namespace
}  // namespace attnctl::textbook
