#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/matrix_view.hpp"
#include "base/memory.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::linalg {
namespace {

using linalg::GemmKernels;
using linalg::Product;

/// A matrix inside a larger buffer. The other values of the buffer must not change.
struct Held {
  Held(std::size_t rows, std::size_t cols, std::size_t gap, std::uint32_t seed)
      : values(rows * (cols + gap) + 1), view(values.data() + 1, rows, cols, cols + gap) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
  }
  Held(const Held& other)
      : values(other.values), view(values.data() + 1, other.view.rows, other.view.cols, other.view.stride) {}
  Held& operator=(const Held&) = delete;
  Held(Held&&) = delete;
  Held& operator=(Held&&) = delete;
  ~Held() = default;

  std::vector<float> values;  // aligned to a float only
  MatrixView<float> view;
};

std::vector<const GemmKernels*> sets() {
  std::vector<const GemmKernels*> found;
  for (const std::string_view name : {"avx512", "avx2", "sse2", "baseline"}) {
    if (const GemmKernels* const set = linalg::gemm_kernels_named(name)) found.push_back(set);
  }
  return found;
}

Product product_of(const Held& a, const Held& b, Held& c) {
  return {c.view.rows,   c.view.cols, a.view.cols,   a.view.data, a.view.stride, b.view.data,
          b.view.stride, c.view.data, c.view.stride, 1,           false};
}

/// A kernel of a kernel set.
struct Way {
  std::string_view set, rows;
  bool transposed = false;
  GemmKernels::Multiply function = nullptr;
};

std::vector<Way> ways() {
  std::vector<Way> found;
  for (const GemmKernels* const set : sets()) {
    for (const Way& way :
         {Way{set->name, "few", true, set->nt}, Way{set->name, "few", false, set->nn},
          Way{set->name, "many", true, set->nt_many}, Way{set->name, "many", false, set->nn_many}}) {
      if (way.function != nullptr) found.push_back(way);
    }
  }
  return found;
}

void multiply(const Way& way, const Product& product) {
  AlignedWorkspace room;
  way.function(product, room.take(linalg::kGemmWorkspace));
}

/// Returns the largest difference from sums in double, relative to the error bound.
double error_of(bool transposed, const Held& a, const Held& b, const Held& before, const Held& c, float alpha,
                bool accumulate) {
  double worst = 0;
  for (std::size_t i = 0; i < c.view.rows; ++i) {
    for (std::size_t j = 0; j < c.view.cols; ++j) {
      double sum = 0;
      double size = 1;
      for (std::size_t p = 0; p < a.view.cols; ++p) {
        const double term = double{a.view(i, p)} * double{transposed ? b.view(j, p) : b.view(p, j)};
        sum += term;
        size += std::abs(term);
      }
      const double want = double{alpha} * sum + (accumulate ? double{before.view(i, j)} : 0);
      worst = std::max(worst, std::abs(double{c.view(i, j)} - want) / size);
    }
  }
  return worst / double{std::numeric_limits<float>::epsilon()};
}

struct Extents {
  std::size_t m, n, k;
};

const std::vector<Extents>& extents() {
  static const std::vector<Extents> rows{{1, 1, 1},     {1, 3, 5},     {2, 5, 16},     {3, 64, 33},
                                         {5, 70, 31},   {6, 17, 64},   {7, 130, 100},  {13, 129, 65},
                                         {16, 192, 48}, {12, 200, 97}, {4, 7, 1601},   {140, 9, 40},
                                         {23, 67, 799}, {8, 256, 128}, {31, 200, 400}, {5, 130, 1000}};
  return rows;
}

}  // namespace

TEST_CASE("products equal their definition in every set of kernels") {
  for (const Way& way : ways()) {
    const bool transposed = way.transposed;
    for (const Extents& e : extents()) {
      CAPTURE(way.set);
      CAPTURE(way.rows);
      CAPTURE(transposed);
      CAPTURE(e.m);
      CAPTURE(e.n);
      CAPTURE(e.k);
      const Held a(e.m, e.k, 3, 1);
      const Held b(transposed ? e.n : e.k, transposed ? e.k : e.n, 5, 2);
      const Held before(e.m, e.n, 2, 3);
      for (const bool accumulate : {false, true}) {
        Held c = before;
        Product product = product_of(a, b, c);
        product.alpha = accumulate ? -0.75F : 1;
        product.accumulate = accumulate;
        multiply(way, product);
        CHECK(error_of(transposed, a, b, before, c, product.alpha, accumulate) < 8);
        for (std::size_t i = 0; i < e.m; ++i) {
          for (std::size_t gap = 0; gap + 1 < c.view.stride - e.n; ++gap) {
            const std::size_t at = 1 + i * c.view.stride + e.n + gap;
            CHECK(c.values[at] == before.values[at]);
          }
        }
      }
    }
  }
}

TEST_CASE("an element of a product does not depend on the number of rows and columns") {
  for (const Way& way : ways()) {
    const bool transposed = way.transposed;
    CAPTURE(way.set);
    CAPTURE(way.rows);
    CAPTURE(transposed);
    const std::size_t n = 150;
    const std::size_t k = 1000;
    const Held a(20, k, 0, 4);
    const Held b(transposed ? n : k, transposed ? k : n, 0, 5);
    Held whole(20, n, 0, 6);
    multiply(way, product_of(a, b, whole));
    Held parts(20, n, 0, 7);
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t j = 0; j < n; j += 50) {
        Product part = product_of(a, b, parts);
        part.m = 1;
        part.n = 50;
        part.a = a.view.row(i).data();
        part.b = transposed ? b.view.row(j).data() : b.view.data + j;
        part.c = &parts.view(i, j);
        multiply(way, part);
      }
    }
    CHECK(std::equal(whole.view.data, whole.view.data + 20 * n, parts.view.data));
  }
}

TEST_CASE("a NaN or infinity affects only its row or column") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Way& way : ways()) {
    const bool transposed = way.transposed;
    CAPTURE(way.set);
    CAPTURE(way.rows);
    Held a(9, 37, 0, 8);
    Held b(transposed ? 71 : 37, transposed ? 37 : 71, 0, 9);
    a.view(4, 36) = nan;
    (transposed ? b.view(70, 1) : b.view(1, 70)) = std::numeric_limits<float>::infinity();
    Held c(9, 71, 0, 10);
    std::fill(c.values.begin(), c.values.end(), nan);  // must not be read
    multiply(way, product_of(a, b, c));
    for (std::size_t i = 0; i < 9; ++i) {
      for (std::size_t j = 0; j < 71; ++j) {
        CHECK(std::isfinite(c.view(i, j)) == (i != 4 && j != 70));
      }
    }
  }
}

TEST_CASE("a packed matrix multiplies any of its parts") {
  const std::size_t k = 150;
  const std::size_t n = 203;
  const Held b(k, n, 4, 11);
  Held transposed(n, k, 1, 0);
  for (std::size_t p = 0; p < k; ++p) {
    for (std::size_t j = 0; j < n; ++j) transposed.view(j, p) = b.view(p, j);
  }
  PackedMatrix packed;
  packed.pack(Held(300, 40, 0, 12).view);  // replaces the previous content
  packed.pack(b.view);
  PackedMatrix of_transposed;
  of_transposed.pack_transposed(transposed.view);
  struct Part {
    std::size_t rows, first_row, inner, first_col, cols;
  };
  for (const Part part : {Part{24, 0, k, 0, n}, Part{1, 149, 1, 202, 1}, Part{7, 20, 100, 60, 8},
                          Part{13, 1, 64, 64, 64}, Part{6, 0, 65, 3, 190}, Part{2, 5, 0, 1, 4}}) {
    CAPTURE(part.rows);
    CAPTURE(part.first_row);
    CAPTURE(part.first_col);
    const Held a(part.rows, part.inner, 2, 13);
    Held inside(part.inner, part.cols, 0, 0);
    for (std::size_t p = 0; p < part.inner; ++p) {
      for (std::size_t j = 0; j < part.cols; ++j)
        inside.view(p, j) = b.view(part.first_row + p, part.first_col + j);
    }
    const Held before(part.rows, part.cols, 3, 14);
    Held c = before;
    packed.multiply(a.view, part.first_row, part.first_col, c.view, 0.5F);
    CHECK(error_of(false, a, inside, before, c, 0.5F, false) < 8);
    Held same = before;
    of_transposed.multiply(a.view, part.first_row, part.first_col, same.view, 0.5F);
    CHECK(c.values == same.values);
  }
  Held c(2, 4, 0, 0);
  CHECK_THROWS_AS(packed.multiply(Held(2, 10, 0, 0).view, 141, 0, c.view), std::logic_error);
  CHECK_THROWS_AS(packed.multiply(Held(2, 10, 0, 0).view, 0, 200, c.view), std::logic_error);
  CHECK_THROWS_AS(packed.multiply(Held(3, 10, 0, 0).view, 0, 0, c.view), std::logic_error);
}

}  // namespace attnctl::linalg
