#include "analysis/patterns/temperature.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support/golden.hpp"

namespace attnctl {
namespace {

/// Returns the counts for `rows` rows with `keys` keys.
std::vector<std::uint64_t> rows_of(std::size_t keys, std::uint64_t rows = 1) {
  std::vector<std::uint64_t> counts(keys + 1);
  counts[keys] = rows;
  return counts;
}

TEST_CASE("the entropy of rows of normal scores is that of scipy's integrals, and of samples") {
  const test::Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/experiments");
  const test::GoldenArray exact = golden.array("entropy_exact");  // [cases][keys, tau, entropy]
  for (std::size_t i = 0; i < exact.shape[0]; ++i) {
    const double* row = exact.values.data() + i * 3;
    CAPTURE(row[0]);
    CAPTURE(row[1]);
    CHECK(std::abs(normal_score_entropy(row[1], rows_of(static_cast<std::size_t>(row[0]))) - row[2]) < 1e-8);
  }
  const test::GoldenArray sampled = golden.array("entropy_sampled");  // [cases][keys, tau, mean, std error]
  for (std::size_t i = 0; i < sampled.shape[0]; ++i) {
    const double* row = sampled.values.data() + i * 4;
    CAPTURE(row[0]);
    CAPTURE(row[1]);
    const double got = normal_score_entropy(row[1], rows_of(static_cast<std::size_t>(row[0])));
    CHECK(std::abs(got - row[2]) < 4 * row[3]);
  }
}

TEST_CASE("rows of unlike lengths: the mean of their entropies; one key has none") {
  std::vector<std::uint64_t> counts = rows_of(9, 3);
  counts[1] = 2;
  counts[4] = 5;
  for (const double tau : {0.2, 1.0, 6.0}) {
    const double want =
        (5 * normal_score_entropy(tau, rows_of(4)) + 3 * normal_score_entropy(tau, rows_of(9))) / 10;
    CHECK(normal_score_entropy(tau, counts) == doctest::Approx(want).epsilon(1e-9));
  }
}

TEST_CASE("entropy falls as scores grow, and a temperature is found again") {
  for (const std::size_t keys : {std::size_t{2}, std::size_t{128}, std::size_t{5000}}) {
    const std::vector<std::uint64_t> counts = rows_of(keys);
    double before = std::log(static_cast<double>(keys));
    for (const double temperature : {50.0, 7.0, 1.001, 1.0, 0.9, 0.125, 0.04, 0.002}) {
      const double entropy = normal_score_entropy(1 / temperature, counts);
      CHECK(entropy < before);
      before = entropy;
      const auto found = temperature_of_entropy(entropy, counts);
      REQUIRE(found.has_value());
      CHECK(std::abs(*found / temperature - 1) < 1e-5);
    }
    CHECK_FALSE(temperature_of_entropy(0, counts).has_value());
    CHECK_FALSE(temperature_of_entropy(std::log(static_cast<double>(keys)) + 1e-3, counts).has_value());
  }
}

}  // namespace
}  // namespace attnctl
