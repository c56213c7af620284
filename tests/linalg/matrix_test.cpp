#include "linalg/matrix.hpp"

#include <doctest/doctest.h>

namespace {

using attnctl::linalg::Matrix;

}  // namespace

TEST_CASE("dot of a view and the transpose of the same matrix has the shape of the operands") {
  Matrix u = Matrix::from_shape({6, 5});
  for (std::size_t i = 0; i < u.size(); ++i) u.flat(i) = static_cast<double>(i * i % 7) - 3;
  const Matrix product = attnctl::linalg::dot(xt::view(u, xt::range(0, 3), xt::all()), xt::transpose(u));
  REQUIRE(product.shape(0) == 3);
  REQUIRE(product.shape(1) == 6);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 6; ++c) {
      double expected = 0;
      for (std::size_t k = 0; k < 5; ++k) expected += u(r, k) * u(c, k);
      CHECK(product(r, c) == doctest::Approx(expected));
    }
  }
}

TEST_CASE("dot with an inner size of zero is zero") {
  const Matrix product = attnctl::linalg::dot(Matrix::from_shape({2, 0}), Matrix::from_shape({0, 3}));
  CHECK(product.shape(1) == 3);
  CHECK(xt::all(xt::equal(product, 0.0)));
}

TEST_CASE("reductions of rows keep one column") {
  const Matrix x = {{1, 2, 6}, {-1, -4, -1}};
  CHECK(attnctl::linalg::row_sum(x) == Matrix({{9}, {-6}}));
  CHECK(attnctl::linalg::row_mean(x) == Matrix({{3}, {-2}}));
  CHECK(attnctl::linalg::row_max(x) == Matrix({{6}, {-1}}));
}
