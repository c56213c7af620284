#include "linalg/gemm.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "base/matrix_view.hpp"

using attnctl::MatrixView;

namespace {

/// A matrix inside a wider buffer with the given stride. The values between the rows must not change.
template <typename T>
struct Strided {
  Strided(std::size_t rows, std::size_t cols, std::size_t gap, std::mt19937& random)
      : view(nullptr, rows, cols, cols + gap) {
    std::normal_distribution<double> normal;
    buffer.resize(rows * (cols + gap));
    for (T& value : buffer) value = static_cast<T>(normal(random));
    view.data = buffer.data();
  }
  Strided(const Strided&) = delete;
  Strided& operator=(const Strided&) = delete;

  std::vector<T> buffer;
  MatrixView<T> view;
};

template <typename T>
struct Product {
  std::string_view name;
  bool transpose_a, transpose_b;
  void (*gemm)(MatrixView<const T>, MatrixView<const T>, MatrixView<T>, T, T);
};

template <typename T>
void compare(const Product<T>& product, std::size_t m, std::size_t n, std::size_t inner, T alpha, T beta) {
  CAPTURE(product.name);
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(inner);
  std::mt19937 random(7);
  Strided<T> a(product.transpose_a ? inner : m, product.transpose_a ? m : inner, 3, random);
  Strided<T> b(product.transpose_b ? n : inner, product.transpose_b ? inner : n, 5, random);
  Strided<T> c(m, n, 2, random);
  const std::vector<T> before = c.buffer;
  product.gemm(a.view, b.view, c.view, alpha, beta);
  double worst = 0;
  bool gaps_untouched = true;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < inner; ++p) {
        const double left = product.transpose_a ? a.view(p, i) : a.view(i, p);
        const double right = product.transpose_b ? b.view(j, p) : b.view(p, j);
        sum += left * right;
      }
      const double want = double{alpha} * sum + double{beta} * double{before[i * (n + 2) + j]};
      worst = std::max(worst, std::abs(double{c.view(i, j)} - want));
    }
    for (std::size_t j = n; j < n + 2; ++j) {
      gaps_untouched = gaps_untouched && c.buffer[i * (n + 2) + j] == before[i * (n + 2) + j];
    }
  }
  CHECK(gaps_untouched);
  CHECK(worst <= 16.0 * static_cast<double>(std::numeric_limits<T>::epsilon()) *
                     (1.0 + std::sqrt(static_cast<double>(inner))));
}

template <typename T>
const std::vector<Product<T>>& products() {
  static const std::vector<Product<T>> rows{
      {"nn", false, false, attnctl::linalg::gemm_nn},
      {"nt", false, true, attnctl::linalg::gemm_nt},
      {"tn", true, false, attnctl::linalg::gemm_tn},
  };
  return rows;
}

}  // namespace

TEST_CASE_TEMPLATE("products of strided views equal plain loops", T, float, double) {
  struct Sizes {
    std::size_t m, n, inner;
  };
  for (const Product<T>& product : products<T>()) {
    for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{1, 33, 64}, Sizes{17, 1, 9},
                           Sizes{64, 48, 100}, Sizes{5, 7, 0}, Sizes{0, 3, 4}, Sizes{3, 0, 4}}) {
      compare<T>(product, s.m, s.n, s.inner, 1, 0);
      compare<T>(product, s.m, s.n, s.inner, T(-0.5), T(2));
    }
  }
}

TEST_CASE_TEMPLATE("beta 0 overwrites previous values, including NaN", T, float, double) {
  for (const Product<T>& product : products<T>()) {
    for (const std::size_t inner : {std::size_t{0}, std::size_t{2}}) {
      CAPTURE(product.name);
      std::vector<T> a(4, 1);
      std::vector<T> b(4, 1);
      std::vector<T> c(4, std::numeric_limits<T>::quiet_NaN());
      product.gemm({a.data(), product.transpose_a ? inner : 2, product.transpose_a ? 2 : inner, 2},
                   {b.data(), product.transpose_b ? 2 : inner, product.transpose_b ? inner : 2, 2},
                   {c.data(), 2, 2}, 1, 0);
      for (const T value : c) CHECK(value == static_cast<T>(inner));
    }
  }
}

TEST_CASE("a bias is added to each row of the product") {
  using Plain = void (*)(MatrixView<const float>, MatrixView<const float>, MatrixView<float>, float, float);
  std::mt19937 random(9);
  for (const bool transposed : {false, true}) {
    const Plain plain = transposed ? Plain(attnctl::linalg::gemm_nt) : Plain(attnctl::linalg::gemm_nn);
    for (const std::size_t m : {1U, 7U, 130U, 300U}) {  // covers each of the kernels
      for (const std::size_t n : {1U, 63U, 64U, 150U}) {
        for (const std::size_t inner : {0U, 5U, 384U, 800U}) {
          CAPTURE(transposed);
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(inner);
          const Strided<float> a(m, inner, 3, random);
          const Strided<float> b(transposed ? n : inner, transposed ? inner : n, 5, random);
          Strided<float> c(m, n, 2, random), d(m, n, 2, random);
          d.buffer = c.buffer;
          const Strided<float> bias(1, n, 0, random);
          for (const float beta : {0.0F, 1.0F}) {
            attnctl::linalg::gemm_biased(transposed, a.view, b.view, bias.view.row(0), c.view, beta);
            plain(a.view, b.view, d.view, 1, beta);
            for (std::size_t i = 0; i < m; ++i) {
              for (std::size_t j = 0; j < n; ++j) d.view(i, j) += bias.view(0, j);
            }
            CHECK(c.buffer == d.buffer);
          }
          attnctl::linalg::gemm_biased(transposed, a.view, b.view, {}, c.view, 0);
          plain(a.view, b.view, d.view, 1, 0);
          CHECK(c.buffer == d.buffer);
        }
      }
    }
  }
  Strided<float> square(3, 3, 0, random);
  const Strided<float> other(3, 3, 0, random);
  CHECK_THROWS_AS(
      attnctl::linalg::gemm_biased(false, other.view, other.view, other.view.row(0).first(2), square.view, 0),
      std::logic_error);
}

TEST_CASE("shapes that do not match throw") {
  std::vector<float> values(64);
  const MatrixView<float> c(values.data(), 2, 3);
  const MatrixView<const float> two_by_four(values.data(), 2, 4);
  const MatrixView<const float> three_by_five(values.data(), 3, 5);
  CHECK_THROWS_AS(attnctl::linalg::gemm_nn(two_by_four, three_by_five, c), std::logic_error);
  CHECK_THROWS_AS(attnctl::linalg::gemm_nt(two_by_four, three_by_five, c), std::logic_error);
  CHECK_THROWS_AS(attnctl::linalg::gemm_tn(two_by_four, three_by_five, c), std::logic_error);
  // An extent beyond the integers of BLAS throws before any memory is read.
  const std::size_t huge = std::size_t{1} << 32U;
  CHECK_THROWS_AS(attnctl::linalg::gemm_nt({values.data(), 2, huge}, {values.data(), 3, huge}, c),
                  std::logic_error);
}

namespace attnctl::linalg {
namespace {

TEST_CASE("the measured speed is positive for any shape and number of workers") {
  for (const std::size_t threads : {std::size_t{1}, std::size_t{3}}) {
    CAPTURE(threads);
    Pool pool(threads);
    for (const GemmShape& shape : {GemmShape{1, 1, 1}, {2, 5, 7}, {7, 5, 2}, {33, 16, 33}}) {
      CAPTURE(shape.m);
      const double gflops = measure_sgemm(pool, shape, 1);
      CHECK(gflops > 0);
      CHECK(std::isfinite(gflops));
    }
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{24}, std::size_t{100'000}}) {
      CAPTURE(bytes);
      const double gbs = measure_read(pool, bytes, 2);
      CHECK(gbs > 0);
      CHECK(std::isfinite(gbs));
    }
    CHECK_THROWS_AS((void)measure_sgemm(pool, {4, 0, 4}, 1), std::logic_error);
  }
}

}  // namespace
}  // namespace attnctl::linalg
