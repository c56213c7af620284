#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

std::vector<double> numbers(const Table& table, std::size_t row) {
  std::vector<Cell> cells(table.columns.size());
  table.row(row, cells);
  std::vector<double> values;
  for (const Cell& cell : cells) {
    const auto* whole = std::get_if<std::int64_t>(&cell);
    values.push_back(whole != nullptr ? static_cast<double>(*whole) : std::get<double>(cell));
  }
  return values;
}

TEST_CASE("averaging: what attention computes is the closed form, which descent does not beat") {
  Pool pool(2);
  const ExperimentResult result = averaging_experiment({}, pool);
  REQUIRE(result.rows.rows == 36);
  for (std::size_t r = 0; r < result.rows.rows; ++r) {
    CAPTURE(r);
    const std::vector<double> row = numbers(result.rows, r);
    const double t = row[0];
    const double h = row[1];
    CHECK(row[2] == doctest::Approx((t - h) / std::sqrt(t)).epsilon(1e-9));
    CHECK(row[3] >= row[4] - 1e-12);
    CHECK(row[3] <= row[4] + 0.02);
    CHECK(row[5] == doctest::Approx(std::sqrt(t - h)).epsilon(1e-9));
  }
  // With two orthogonal values, one head returns at most half of each. Two heads and W_O return both.
  const std::vector<double> one = numbers(result.rows, 1);
  CHECK(one[2] == doctest::Approx(std::sqrt(0.5)));
  const std::vector<double> two = numbers(result.rows, 2);
  CHECK(two[2] < 1e-12);
  CHECK(two[5] < 1e-12);
}

TEST_CASE("averaging: no random weights come nearer than the closed forms") {
  Random random(1);
  for (int draw = 0; draw < 2000; ++draw) {
    const std::size_t targets = 1 + random.next() % 6;
    const std::size_t heads = 1 + random.next() % targets;
    std::vector<double> sum(targets);
    for (std::size_t h = 0; h < heads; ++h) {  // a + b + ... <= 1: the remaining part is for other tokens
      std::vector<double> weights(targets + 1);
      double total = 0;
      for (double& w : weights) total += w = std::exp(3 * random.normal());
      for (std::size_t j = 0; j < targets; ++j) sum[j] += weights[j] / total;
    }
    double squares = 0;
    for (const double w : sum) squares += (1 - w) * (1 - w);
    CHECK(std::sqrt(squares) >=
          static_cast<double>(targets - heads) / std::sqrt(static_cast<double>(targets)) - 1e-12);
  }
}

TEST_CASE("averaging: blunt queries do worse, and values need room to be orthogonal") {
  Pool pool(1);
  AveragingOptions options{.targets = 2, .others = 6, .d_value = 8, .sharpness = 1};
  const std::vector<double> blunt = numbers(averaging_experiment(options, pool).rows, 2);
  CHECK(blunt[2] > 0.1);
  CHECK(blunt[5] > 0.1);
  options.d_value = 7;
  CHECK_THROWS_AS(static_cast<void>(averaging_experiment(options, pool)), Error);
}

}  // namespace
}  // namespace attnctl::textbook
