#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
namespace {

std::vector<Cell> cells(const Table& table, std::size_t row) {
  std::vector<Cell> values(table.columns.size());
  table.row(row, values);
  return values;
}

std::int64_t count(const Table& table, std::size_t row, const std::string& name) {
  const auto place = std::ranges::find(table.columns, name, &Column::name) - table.columns.begin();
  return std::get<std::int64_t>(cells(table, row).at(static_cast<std::size_t>(place)));
}

const double* number(std::vector<Cell>& row, const Table& table, const std::string& name) {
  const auto place = std::ranges::find(table.columns, name, &Column::name) - table.columns.begin();
  return std::get_if<double>(&row.at(static_cast<std::size_t>(place)));
}

TEST_CASE("heads: neither parameters nor multiply-adds depend on their number, ranks and memory do") {
  Pool pool(2);
  const ExperimentResult result = heads_experiment({}, pool);
  const std::vector<std::size_t> heads = HeadsOptions{}.heads;
  REQUIRE(heads == std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 64});
  REQUIRE(result.rows.rows == heads.size());
  const std::int64_t d = 512;
  const std::int64_t n = 128;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const auto h = static_cast<std::int64_t>(heads[i]);
    CAPTURE(h);
    CHECK(count(result.rows, i, "d_head") == d / h);
    CHECK(count(result.rows, i, "parameters") == 4 * d * d);
    CHECK(count(result.rows, i, "multiply_adds") == 4 * n * d * d + 2 * n * n * d);
    CHECK(count(result.rows, i, "pattern_bytes") == 4 * h * n * n);
    CHECK(count(result.rows, i, "score_rank_bound") == std::min(n, d / h));
    CHECK(count(result.rows, i, "score_rank") == std::min(n, d / h));  // random heads reach the bound
    CHECK(count(result.rows, i, "qk_rank") == d / h);
    CHECK(count(result.rows, i, "distinct_patterns") == h);
  }
  std::vector<Cell> eight = cells(result.rows, 3);
  CHECK(std::abs(*number(eight, result.rows, "qk_effective_rank") - 61.9) < 0.1);  // the textbook's example
  std::vector<Cell> one = cells(result.rows, 0);
  CHECK(number(one, result.rows, "pattern_distance") == nullptr);  // undefined for one head
}

TEST_CASE("heads: measured as NumPy measures its own random heads") {
  std::ifstream file(ATTNCTL_SOURCE_DIR "/tests/golden/heads.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  HeadsOptions options{.d = golden.at("d"), .heads = {}, .length = golden.at("length"), .seed = 7};
  for (const auto& row : golden.at("rows")) options.heads.push_back(row.at("heads"));
  Pool pool(2);
  const ExperimentResult result = heads_experiment(options, pool);
  for (std::size_t i = 0; i < options.heads.size(); ++i) {
    const auto& want = golden.at("rows")[i];
    CAPTURE(options.heads[i]);
    std::vector<Cell> row = cells(result.rows, i);
    for (const std::string name : {"qk_effective_rank", "pattern_distance"}) {
      const double* got = number(row, result.rows, name);
      REQUIRE((got == nullptr) == want.at(name).is_null());
      if (got == nullptr) continue;
      CHECK(std::abs(*got - want.at(name).get<double>()) <
            4 * want.at(name + "_deviation").get<double>());  // deviation of one draw
    }
  }
}

TEST_CASE("heads: heads that are the same one count once in distinct patterns, threads change nothing") {
  HeadsOptions options{.d = 16, .heads = {4}, .length = 1};  // with one token, every pattern is [1]
  Pool one(1);
  const Table table = heads_experiment(options, one).rows;
  CHECK(count(table, 0, "distinct_patterns") == 1);
  options.length = 9;
  Pool three(3);
  CHECK(cells(heads_experiment(options, one).rows, 0) == cells(heads_experiment(options, three).rows, 0));
  const std::vector<Cell> before = cells(heads_experiment(options, one).rows, 0);
  options.seed = 1;
  CHECK(before != cells(heads_experiment(options, one).rows, 0));
}

TEST_CASE("heads: numbers that do not divide the width are refused") {
  Pool pool(1);
  CHECK_THROWS_WITH_AS(static_cast<void>(heads_experiment({.d = 10, .heads = {2, 3}}, pool)),
                       doctest::Contains("a multiple of 3, the number of heads"), Error);
}

TEST_CASE("the random layer is attention, computed the long way") {
  Random random(5);
  const BareLayer layer = random_bare_layer(6, 3, random);
  const OwnedMatrix<double> x = random_matrix(4, 6, 1, random);
  const auto project = [&](const OwnedMatrix<double>& weight, std::size_t out, std::size_t token) {
    double sum = 0;
    for (std::size_t c = 0; c < 6; ++c) sum += weight(out, c) * x(token, c);
    return sum;
  };
  const OwnedMatrix<double> y = output_of(layer, x.view());
  for (std::size_t i = 0; i < 4; ++i) {
    double z[6] = {};
    for (std::size_t head = 0; head < 3; ++head) {
      double weight[4];
      double sum = 0;
      for (std::size_t j = 0; j < 4; ++j) {
        double score = 0;
        for (std::size_t c = 2 * head; c < 2 * head + 2; ++c)
          score += project(layer.query, c, i) * project(layer.key, c, j);
        sum += weight[j] = std::exp(score / std::sqrt(2.0));
      }
      for (std::size_t c = 2 * head; c < 2 * head + 2; ++c)
        for (std::size_t j = 0; j < 4; ++j) z[c] += weight[j] / sum * project(layer.value, c, j);
    }
    for (std::size_t out = 0; out < 6; ++out) {
      double want = 0;
      for (std::size_t c = 0; c < 6; ++c) want += layer.output(out, c) * z[c];
      CHECK(y(i, out) == doctest::Approx(want).epsilon(1e-12));
    }
  }
}

}  // namespace
}  // namespace attnctl::textbook
