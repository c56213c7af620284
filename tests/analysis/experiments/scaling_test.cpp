#include <cmath>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/numbers.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

double cell(const Table& table, std::size_t row, std::size_t column) {
  std::vector<Cell> cells(table.columns.size());
  table.row(row, cells);
  return std::get<double>(cells[column]);
}

TEST_CASE("the norm of the softmax Jacobian is that of diag(p) - p p^T") {
  Random random(3);
  for (const std::size_t n : {1U, 2U, 7U, 64U}) {
    std::vector<double> p(n);
    double sum = 0;
    for (double& value : p) sum += value = std::exp(3 * random.normal());
    double squares = 0;
    for (double& value : p) value /= sum;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const double entry = (i == j ? p[i] : 0) - p[i] * p[j];
        squares += entry * entry;
      }
    }
    CHECK(softmax_jacobian_norm(p) == doctest::Approx(std::sqrt(squares)).epsilon(1e-9));
  }
  const std::vector<double> uniform(4, 0.25);
  CHECK(softmax_jacobian_norm(uniform) == doctest::Approx(std::sqrt(0.1875)));  // sqrt((n - 1) / n^2)
  const std::vector<double> saturated{0, 1, 0};
  CHECK(softmax_jacobian_norm(saturated) == 0);
}

TEST_CASE("scores have variance d_k, and 1 where they are scaled, without scaling softmax saturates") {
  Pool pool(2);
  const ExperimentResult result = scaling_experiment({}, pool);
  const std::vector<std::size_t> d_k = ScalingOptions{}.d_k;
  REQUIRE(result.rows.rows == d_k.size());
  for (std::size_t i = 0; i < d_k.size(); ++i) {
    CAPTURE(d_k[i]);
    CHECK(std::abs(cell(result.rows, i, 1) / static_cast<double>(d_k[i]) - 1) < 0.02);
    CHECK(std::abs(cell(result.rows, i, 2) - 1) < 0.02);
    if (i == 0) continue;
    CHECK(cell(result.rows, i, 5) > cell(result.rows, i - 1, 5));  // sharper with every d_k
    CHECK(cell(result.rows, i, 7) < cell(result.rows, i - 1, 7));
    CHECK(cell(result.rows, i, 8) == doctest::Approx(cell(result.rows, 0, 8)).epsilon(0.03));
  }
  std::size_t first = d_k.size();  // from here on, the Jacobian is smaller without scaling
  while (cell(result.rows, first - 1, 3) < cell(result.rows, first - 1, 4)) --first;
  CHECK(result.conclusion.starts_with("From d_k 1 to 1024, the variance of the scores grows from "));
  CHECK(result.conclusion.find(", so softmax saturates; ") != std::string::npos);
  CHECK(result.conclusion.find(fmt::format(" From d_k {} on, the gradient is smaller ", d_k[first])) !=
        std::string::npos);
  CHECK(cell(result.rows, d_k.size() - 1, 3) < cell(result.rows, d_k.size() - 1, 4) / 2);  // gradients vanish
}

TEST_CASE("scores have variance d_k at sizes that are no powers of two either") {
  Pool pool(2);
  const std::vector<std::size_t> d_k = {3, 100, 300, 555, 777, 913, 1000, 1023};
  const Table rows = scaling_experiment({.d_k = d_k}, pool).rows;
  for (std::size_t i = 0; i < d_k.size(); ++i) {
    CAPTURE(d_k[i]);
    CHECK(std::abs(cell(rows, i, 1) / static_cast<double>(d_k[i]) - 1) < 0.02);
  }
}

TEST_CASE("threads change nothing, the seed does") {
  ScalingOptions options{.d_k = {3, 16}, .keys = 5, .components = 4096};
  Pool one(1);
  Pool three(3);
  const Table a = scaling_experiment(options, one).rows;
  const Table b = scaling_experiment(options, three).rows;
  options.seed = 1;
  const Table c = scaling_experiment(options, one).rows;
  for (std::size_t column = 1; column + 1 < a.columns.size(); ++column) {
    CHECK(cell(a, 1, column) == cell(b, 1, column));
    CHECK(cell(a, 1, column) != cell(c, 1, column));
  }
}

}  // namespace
}  // namespace attnctl::textbook
