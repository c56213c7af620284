#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/golden.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

/// Returns matrix `index` along the leading axes of an array. The last two axes are the matrix.
OwnedMatrix<double> matrix_at(const test::GoldenArray& array, std::size_t index) {
  const std::size_t rank = array.shape.size();
  OwnedMatrix<double> matrix(array.shape[rank - 2], array.shape[rank - 1]);
  const std::size_t size = matrix.values().size();
  std::copy_n(array.values.begin() + static_cast<std::ptrdiff_t>(index * size), size,
              matrix.values().begin());
  return matrix;
}

double largest_difference(const OwnedMatrix<double>& a, const OwnedMatrix<double>& b) {
  REQUIRE(a.values().size() == b.values().size());
  double largest = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i)
    largest = std::max(largest, std::abs(a.values()[i] - b.values()[i]));
  return largest;
}

TEST_CASE("the gradient of each head and route is that of torch's autograd, heads add up to the whole") {
  const test::Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/experiments");
  const OwnedMatrix<double> x = matrix_at(golden.array("x"), 0);
  const OwnedMatrix<double> d_output = matrix_at(golden.array("d_output"), 0);
  const std::size_t heads = golden.array("query").shape[0];
  const double d_k = static_cast<double>(golden.array("query").shape[2]);
  for (const bool scaled : {false, true}) {
    CAPTURE(scaled);
    const std::string name = scaled ? "scaled" : "unscaled";
    const test::GoldenArray routes = golden.array("routes_" + name);
    OwnedMatrix<double> whole(x.rows(), x.cols());
    for (std::size_t h = 0; h < heads; ++h) {
      const HeadMatrices head = {matrix_at(golden.array("query"), h), matrix_at(golden.array("key"), h),
                                 matrix_at(golden.array("value"), h), matrix_at(golden.array("output"), h)};
      const HeadGradient got =
          head_gradient(head, x.view(), d_output.view(), scaled ? 1 / std::sqrt(d_k) : 1);
      const auto& [query, key, value] = got.parts;
      CHECK(largest_difference(query, matrix_at(routes, 3 * h)) < 1e-12);
      CHECK(largest_difference(key, matrix_at(routes, 3 * h + 1)) < 1e-12);
      CHECK(largest_difference(value, matrix_at(routes, 3 * h + 2)) < 1e-12);
      for (std::size_t i = 0; i < whole.values().size(); ++i)
        whole.values()[i] += query.values()[i] + key.values()[i] + value.values()[i];
    }
    CHECK(largest_difference(whole, matrix_at(golden.array("whole_" + name), 0)) < 1e-11);
  }
}

struct Row {
  std::vector<Cell> cells;
  std::vector<Column> columns;
  double operator[](const std::string& column) const {
    const auto at = std::ranges::find(columns, column, &Column::name) - columns.begin();
    return std::get<double>(cells.at(static_cast<std::size_t>(at)));
  }
  [[nodiscard]] bool is_sum() const { return std::holds_alternative<std::monostate>(cells[2]); }
};

std::vector<Row> rows_of(const GradientsOptions& options, std::size_t threads) {
  Pool pool(threads);
  const Table table = gradients_experiment(options, pool).rows;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < table.rows; ++i) {
    Row row{std::vector<Cell>(table.columns.size()), table.columns};
    table.row(i, row.cells);
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST_CASE("every path agrees with central differences, and the shares of the heads add up") {
  const std::vector<Row> rows = rows_of({.n = 7, .d = 12, .heads = 3, .d_k = {1, 4, 64}, .checks = 84}, 2);
  REQUIRE(rows.size() == 3 * 2 * 4);
  double shares = 0;
  for (const Row& row : rows) {
    CHECK(row["error"] < 1e-8);
    CHECK(row["path"] > 0);
    if (!row.is_sum()) {
      shares += row["share"];
      continue;
    }
    CHECK(shares == doctest::Approx(1).epsilon(1e-12));
    shares = 0;
  }
}

TEST_CASE("without the scale the gradient of most tokens through their queries vanishes as d_k grows") {
  const std::vector<Row> rows = rows_of({.n = 32, .d_k = {16, 1024}, .checks = 1}, 2);
  std::vector<Row> sums;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(sums),
               [](const Row& row) { return row.is_sum(); });
  REQUIRE(sums.size() == 4);  // d_k 16 and 1024, unscaled and scaled
  CHECK(sums[2]["query_median"] < sums[0]["query_median"] / 2);
  CHECK(sums[3]["query_median"] > sums[1]["query_median"] / 2);
  CHECK(sums[2]["largest_weight"] > 0.9);
}

TEST_CASE("gradients: threads change nothing, the seed does, heads must divide d") {
  const GradientsOptions options{.n = 5, .d = 8, .heads = 2, .d_k = {3}, .checks = 4};
  const std::vector<Row> one = rows_of(options, 1);
  const std::vector<Row> three = rows_of(options, 3);
  GradientsOptions other = options;
  other.seed = 1;
  const std::vector<Row> seeded = rows_of(other, 1);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].cells == three[i].cells);
    CHECK(one[i]["path"] != seeded[i]["path"]);
  }
  other.heads = 3;
  Pool pool(1);
  CHECK_THROWS_AS((void)gradients_experiment(other, pool), Error);
}

}  // namespace
}  // namespace attnctl::textbook
