#include "linalg/decompositions.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "support/long_way.hpp"

namespace attnctl::linalg {
namespace {

using long_way::Dense;

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Dense by_columns(const Dense& a) {
  Dense columns(a.cols(), a.rows());
  for (std::size_t r = 0; r < a.rows(); ++r) {
    for (std::size_t c = 0; c < a.cols(); ++c) columns(c, r) = a(r, c);
  }
  return columns;
}

ProductSvd decompose(const Dense& a, const Dense& b, std::size_t vectors) {
  Dense a_columns = by_columns(a);
  Dense b_columns = by_columns(b);
  return svd_of_product(a_columns.view(), b_columns.view(), vectors);
}

void check_orthonormal(const Dense& vectors) {
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      CHECK(std::abs(dot(vectors.view().row(i), vectors.view().row(j)) - (i == j ? 1.0 : 0.0)) < 1e-12);
    }
  }
}

/// Checks that a request for fewer vectors returns the first of all vectors, and that the values do not
/// depend on the number of vectors.
void check_same_without_all_vectors(const Dense& a, const Dense& b, const ProductSvd& all) {
  const std::size_t rank = all.values.size();
  const ProductSvd values = decompose(a, b, 0);
  REQUIRE(values.values.size() == rank);
  for (std::size_t i = 0; i < rank; ++i) {
    CHECK(values.values[i] == doctest::Approx(all.values[i]).epsilon(1e-12));
  }
  CHECK(values.left.rows() == 0);
  const ProductSvd first = decompose(a, b, 2);
  REQUIRE(first.left.rows() == std::min<std::size_t>(2, rank));
  REQUIRE(first.right.rows() == first.left.rows());
  for (std::size_t i = 0; i < first.left.rows(); ++i) {
    CHECK(dot(first.left.view().row(i), all.left.view().row(i)) == doctest::Approx(1));
    CHECK(dot(first.right.view().row(i), all.right.view().row(i)) == doctest::Approx(1));
  }
}

TEST_CASE("the SVD of a product equals that of the product formed") {
  struct Row {
    std::size_t m, n, k;
    const char* why;
  };
  long_way::Normal normal(7);
  for (const Row& row :
       {Row{24, 24, 8, "tall factors"}, Row{24, 9, 8, "two widths"}, Row{40, 5, 8, "b is wide"},
        Row{5, 40, 8, "a is wide"}, Row{6, 7, 11, "both wide: the rank is the outer extent"},
        Row{8, 8, 8, "square"}, Row{12, 1, 1, "a vector"}, Row{1, 1, 4, "a number"},
        Row{90, 70, 45, "more columns than are reduced together"}}) {
    CAPTURE(row.why);
    const Dense a = normal.matrix(row.m, row.k);
    const Dense b = normal.matrix(row.n, row.k);
    const Dense formed = long_way::product_nt(a, b);
    const auto want = long_way::singular_values(formed);
    const std::size_t rank = std::min({row.m, row.n, row.k});

    const ProductSvd svd = decompose(a, b, row.k);
    REQUIRE(svd.values.size() == rank);
    for (std::size_t i = 0; i < rank; ++i) CHECK(svd.values[i] == doctest::Approx(want[i]).epsilon(1e-11));
    check_same_without_all_vectors(a, b, svd);
    REQUIRE(svd.left.rows() == rank);
    REQUIRE(svd.left.cols() == row.m);
    REQUIRE(svd.right.cols() == row.n);
    check_orthonormal(svd.left);
    check_orthonormal(svd.right);
    for (std::size_t r = 0; r < row.m; ++r) {
      for (std::size_t c = 0; c < row.n; ++c) {
        double sum = 0;
        for (std::size_t i = 0; i < rank; ++i) sum += svd.left(i, r) * svd.values[i] * svd.right(i, c);
        CHECK(std::abs(sum - formed(r, c)) < 1e-11 * want[0]);
      }
    }
  }
}

TEST_CASE("the left entry of largest magnitude is positive") {
  long_way::Normal normal(8);
  const Dense a = normal.matrix(30, 6);
  Dense negative = a;
  for (double& value : negative.values()) value = -value;
  const Dense b = normal.matrix(20, 6);
  const ProductSvd svd = decompose(a, b, 6);
  const ProductSvd turned = decompose(negative, b, 6);
  for (std::size_t i = 0; i < svd.values.size(); ++i) {
    const auto row = svd.left.view().row(i);
    CHECK(*std::max_element(row.begin(), row.end()) > -*std::min_element(row.begin(), row.end()));
    // The product is negated, so the right vectors change their sign and the left ones do not.
    CHECK(dot(row, turned.left.view().row(i)) == doctest::Approx(1));
    CHECK(dot(svd.right.view().row(i), turned.right.view().row(i)) == doctest::Approx(-1));
  }
}

TEST_CASE("singular values of known matrices") {
  struct Row {
    std::vector<double> entries;
    std::size_t rows, cols;
    std::vector<double> want;
    const char* why;
  };
  for (const Row& row : {Row{{3, 0, 0, 0, -5, 0}, 2, 3, {5, 3}, "diagonal"},
                         Row{{1, 1, 1, 1, 1, 1}, 3, 2, {std::sqrt(6.0), 0}, "rank one"},
                         Row{{4, 0, 3, -5}, 2, 2, {std::sqrt(40.0), std::sqrt(10.0)}, "by hand"},
                         Row{{0, 0, 0, 0}, 2, 2, {0, 0}, "zero"}}) {
    CAPTURE(row.why);
    Dense a(row.rows, row.cols);
    std::copy(row.entries.begin(), row.entries.end(), a.values().begin());
    const auto values = singular_values(std::as_const(a).view());
    REQUIRE(values.size() == row.want.size());
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - row.want[i]) < 1e-14);
  }
}

TEST_CASE("NaN and infinity throw, an empty extent does not") {
  long_way::Normal normal(9);
  const Dense good = normal.matrix(4, 2);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Dense wrong = good;
    wrong(3, 1) = bad;
    CHECK_THROWS_AS((void)decompose(good, wrong, 0), Error);
    CHECK_THROWS_AS((void)singular_values(std::as_const(wrong).view()), Error);
  }
  CHECK(decompose(Dense(0, 2), good, 2).values.empty());
  CHECK(singular_values(Dense(3, 0).view()).empty());
}

TEST_CASE("a strided view gives the same result as its copy") {
  long_way::Normal normal(10);
  const Dense a = normal.matrix(20, 4);
  const Dense columns = by_columns(a);
  Dense wide_a(4, 33);
  Dense wide_b(4, 41);
  for (std::size_t c = 0; c < 4; ++c) {
    std::ranges::copy(columns.view().row(c), wide_a.view().row(c).begin() + 5);
    std::ranges::copy(columns.view().row(c), wide_b.view().row(c).begin() + 2);
  }
  const ProductSvd strided =
      svd_of_product(wide_a.view().col_range(5, 20), wide_b.view().col_range(2, 20), 3);
  const ProductSvd packed = decompose(a, a, 3);
  CHECK(strided.values == packed.values);
  CHECK(std::ranges::equal(strided.left.values(), packed.left.values()));
  CHECK(std::ranges::equal(strided.right.values(), packed.right.values()));
  for (std::size_t c = 0; c < 4; ++c) CHECK(wide_a(c, 4) == 0);
}

TEST_CASE("values far outside the range of float32 decompose correctly") {
  long_way::Normal normal(12);
  for (const double scale : {1e-150, 1e-30, 1e30, 1e75}) {
    CAPTURE(scale);
    const Dense a = normal.matrix(30, 5);
    const Dense b = normal.matrix(25, 5);
    Dense scaled = a;
    for (double& value : scaled.values()) value *= scale;
    const auto want = decompose(a, b, 0).values;
    const auto got = decompose(scaled, b, 0).values;
    for (std::size_t i = 0; i < want.size(); ++i) {
      CHECK(got[i] / scale == doctest::Approx(want[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("workers decompose concurrently") {
  long_way::Normal normal(11);
  std::vector<Dense> a;
  std::vector<Dense> b;
  for (int i = 0; i < 24; ++i) {
    a.push_back(normal.matrix(60, 16));
    b.push_back(normal.matrix(50, 16));
  }
  std::vector<std::vector<double>> alone(a.size());
  std::vector<std::vector<double>> together(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    alone[i] = decompose(a[i], b[i], 16).values;
  }
  Pool pool(4);
  pool.run(a.size(),
           [&](std::size_t task, std::size_t) { together[task] = decompose(a[task], b[task], 16).values; });
  CHECK(together == alone);
}

using long_way::Dense;

Dense matrix(std::size_t rows, std::initializer_list<double> values) {
  Dense result(rows, values.size() / rows);
  std::ranges::copy(values, result.values().begin());
  return result;
}

TEST_CASE("eigenvalues of known matrices") {
  // The companion matrix of z^3 - 1. Its eigenvalues are the cube roots of 1.
  const Dense companion = matrix(3, {0, 0, 1, 1, 0, 0, 0, 1, 0});
  std::vector<std::complex<double>> values = eigenvalues(companion.view());
  REQUIRE(values.size() == 3);
  std::complex<double> sum = 0;
  for (const std::complex<double>& value : values) {
    CHECK(std::abs(value * value * value - 1.0) < 1e-12);
    sum += value;
  }
  CHECK(std::abs(sum) < 1e-12);
  CHECK(std::ranges::any_of(values, [](const auto& value) { return value.imag() > 0.8; }));

  // A matrix that is not symmetric but has real eigenvalues: [[4, 2], [1, 3]] has 2 and 5.
  values = eigenvalues(matrix(2, {4, 2, 1, 3}).view());
  std::ranges::sort(values, {}, [](const auto& value) { return value.real(); });
  CHECK(std::abs(values[0] - 2.0) < 1e-12);
  CHECK(std::abs(values[1] - 5.0) < 1e-12);
  CHECK(eigenvalues(Dense().view()).empty());
}

TEST_CASE("eigenvectors of a symmetric matrix are orthonormal and reconstruct it") {
  const std::size_t n = 9;
  const Dense half = long_way::Normal(3).matrix(n, n);
  Dense a(n, n);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t c = 0; c < n; ++c) a(r, c) = half(r, c) + half(c, r);
  }
  const SymmetricEigen eigen = symmetric_eigen(std::as_const(a).view());
  CHECK(std::ranges::is_sorted(eigen.values, std::greater<>()));
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t c = 0; c < n; ++c) {
      double back = 0;
      double inner = 0;
      for (std::size_t i = 0; i < n; ++i) {
        back += eigen.values[i] * eigen.vectors(i, r) * eigen.vectors(i, c);
        inner += eigen.vectors(r, i) * eigen.vectors(c, i);
      }
      CHECK(std::abs(back - a(r, c)) < 1e-12);
      CHECK(std::abs(inner - (r == c ? 1.0 : 0.0)) < 1e-12);
    }
    const auto row = eigen.vectors.view().row(r);
    CHECK(*std::ranges::max_element(row, {}, [](double value) { return std::abs(value); }) > 0);
  }
}

TEST_CASE("only square and finite matrices have eigenvalues") {
  CHECK_THROWS_AS((void)eigenvalues(Dense(2, 3).view()), std::logic_error);
  Dense bad(2, 2);
  bad(1, 0) = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS((void)eigenvalues(std::as_const(bad).view()), doctest::Contains("row 1"), Error);
  CHECK_THROWS_WITH_AS((void)symmetric_eigen(std::as_const(bad).view()), doctest::Contains("row 1"), Error);
}

TEST_CASE("R^T R equals the Gram matrix") {
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{7, 3}, {3, 7}, {4, 4}, {40, 35}}) {
    const Dense columns = long_way::Normal(rows).matrix(cols, rows);
    Dense scratch = columns;
    const Dense triangle = triangle_of(scratch.view());
    CHECK(triangle.rows() == cols);
    CHECK(triangle.cols() == std::min(rows, cols));
    const Dense want = long_way::product_nt(columns, columns);
    const Dense got = long_way::product_nt(triangle, triangle);
    for (std::size_t i = 0; i < want.values().size(); ++i) {
      CHECK(std::abs(got.values()[i] - want.values()[i]) < 1e-11);
    }
  }
}

}  // namespace
}  // namespace attnctl::linalg
