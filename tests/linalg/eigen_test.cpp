#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "linalg/decompositions.hpp"
#include "support/long_way.hpp"

namespace attnctl {
namespace {

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
}  // namespace attnctl
