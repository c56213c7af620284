#include "linalg/factor.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xtensor.hpp>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "linalg/gemm.hpp"
#include "linalg/lapack.hpp"

namespace attnctl {
namespace {

/// What LAPACK takes. Its memory is that of a row-major transpose, which is how `transposed` below shows it
/// to gemm: nothing is reordered between the two.
using ColumnMajor = xt::xtensor<double, 2, xt::layout_type::column_major>;

ColumnMajor column_major(MatrixView<const double> a) {
  ColumnMajor copy = ColumnMajor::from_shape({a.rows, a.cols});
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < a.cols; ++c) copy(r, c) = a(r, c);
  }
  return copy;
}

/// The transpose of a column-major matrix [m, n], as the row-major view [n, m] that its memory is.
MatrixView<const double> transposed(const ColumnMajor& a) {
  return {a.data(), a.shape()[1], a.shape()[0]};
}

/// The integer of LAPACK.
int extent(std::size_t value) {
  const auto narrow = checked_narrow<int>(value);
  if (!narrow) throw std::logic_error("a matrix extent does not fit the integers of LAPACK");
  return *narrow;
}

bool all_finite(std::span<const double> values) {
  bool finite = true;  // no early end: a plain loop of comparisons becomes one of vectors
  for (const double value : values) finite &= std::abs(value) <= std::numeric_limits<double>::max();
  return finite;
}

void require_finite(MatrixView<const double> a) {
  for (std::size_t r = 0; r < a.rows; ++r) {
    if (all_finite(a.row(r))) continue;
    fail(
        Status::non_finite,
        "a matrix to decompose holds a value in row {} that is not finite; its singular values are undefined",
        r);
  }
}

void require_success(int info, const char* routine) {
  if (info != 0) throw std::runtime_error(fmt::format("LAPACK {} ended with {}", routine, info));
}

/// QR of a matrix a [m, k], given by columns and decomposed in their memory.
class Qr {
 public:
  explicit Qr(MatrixView<double> columns) : columns_(columns) {
    if (!tall()) return;
    factors_.resize(block() * columns.rows);
    std::vector<double> work(block() * columns.rows);
    const int m = extent(columns.cols);
    const int k = extent(columns.rows);
    const int nb = extent(block());
    const int stride = extent(columns.stride);
    int info = 0;
    dgeqrt_(&m, &k, &nb, columns.data, &stride, factors_.data(), &nb, work.data(), &info);
    require_success(info, "dgeqrt");
  }

  /// R by columns: [k, min(m, k)].
  [[nodiscard]] OwnedMatrix<double> r_columns() const {
    OwnedMatrix<double> r(columns_.rows, std::min(columns_.rows, columns_.cols));
    for (std::size_t c = 0; c < r.rows(); ++c) {
      std::copy_n(columns_.row(c).begin(), tall() ? c + 1 : r.cols(), r.view().row(c).begin());
    }
    return r;
  }

  /// Vectors that begin with coordinates of R's rows and go on with zeros, [count, m], to those of a: each is
  /// multiplied by Q in place.
  void lift(MatrixView<double> vectors) const {
    if (!tall() || vectors.rows == 0) return;
    std::vector<double> work(block() * vectors.rows);
    const int m = extent(columns_.cols);
    const int count = extent(vectors.rows);
    const int k = extent(columns_.rows);
    const int nb = extent(block());
    const int stride = extent(columns_.stride);
    const int vector_stride = extent(vectors.stride);
    int info = 0;
    dgemqrt_("L", "N", &m, &count, &k, &nb, columns_.data, &stride, factors_.data(), &nb, vectors.data,
             &vector_stride, work.data(), &info, 1, 1);
    require_success(info, "dgemqrt");
  }

 private:
  /// Otherwise R is a itself, and Q the identity.
  [[nodiscard]] bool tall() const { return columns_.cols > columns_.rows; }
  /// Columns that are reduced together; 16 to 64 differ by a tenth at 768 x 64 and 4096 x 128.
  [[nodiscard]] std::size_t block() const { return std::min<std::size_t>(columns_.rows, 32); }

  MatrixView<double> columns_;   // [k, m]
  std::vector<double> factors_;  // of the reflectors, [k, block]
};

/// A singular vector is known up to its sign: the left entry of largest magnitude is made positive, the
/// lowest index where several are equal.
void fix_signs(OwnedMatrix<double>& left, OwnedMatrix<double>& right) {
  for (std::size_t i = 0; i < left.rows(); ++i) {
    const auto row = left.view().row(i);
    const auto largest = std::max_element(row.begin(), row.end(),
                                          [](double a, double b) { return std::abs(a) < std::abs(b); });
    if (largest == row.end() || *largest >= 0) continue;
    for (double& value : row) value = -value;
    for (double& value : right.view().row(i)) value = -value;
  }
}

/// The core R_a R_b^T [rows of R_a, rows of R_b].
ColumnMajor core_of(const Qr& a, const Qr& b) {
  const OwnedMatrix<double> r_a = a.r_columns();
  const OwnedMatrix<double> r_b = b.r_columns();
  ColumnMajor core = ColumnMajor::from_shape({r_a.cols(), r_b.cols()});
  gemm_tn(r_b.view(), r_a.view(), MatrixView<double>(core.data(), r_b.cols(), r_a.cols()));
  return core;
}

}  // namespace

ProductSvd svd_of_product(MatrixView<double> a_columns, MatrixView<double> b_columns, std::size_t vectors) {
  if (a_columns.rows != b_columns.rows) {
    throw std::logic_error("svd_of_product: the factors have unlike inner extents");
  }
  require_finite(a_columns);
  require_finite(b_columns);
  ProductSvd result;
  if (a_columns.empty() || b_columns.empty()) return result;

  const Qr a(a_columns);
  const Qr b(b_columns);
  ColumnMajor core = core_of(a, b);
  // u [rows of R_a, r], s [r], vt [r, rows of R_b]
  const auto [info, u, s, vt] = xt::lapack::gesdd(core, vectors > 0 ? 'S' : 'N');
  require_success(info, "dgesdd");
  result.values.assign(s.begin(), s.end());

  const std::size_t count = std::min(vectors, result.values.size());
  result.left = OwnedMatrix<double>(count, a_columns.cols);
  result.right = OwnedMatrix<double>(count, b_columns.cols);
  for (std::size_t i = 0; i < count; ++i) {
    std::ranges::copy(transposed(u).row(i), result.left.view().row(i).begin());
    for (std::size_t c = 0; c < vt.shape()[1]; ++c) result.right(i, c) = vt(i, c);
  }
  a.lift(result.left.view());
  b.lift(result.right.view());
  fix_signs(result.left, result.right);
  return result;
}

OwnedMatrix<double> triangle_of(MatrixView<double> columns) {
  require_finite(columns);
  if (columns.empty()) return {};
  return Qr(columns).r_columns();
}

std::vector<double> singular_values(MatrixView<const double> a) {
  require_finite(a);
  if (a.empty()) return {};
  const auto s = std::get<1>(xt::linalg::svd(column_major(a), false, false));
  return {s.begin(), s.end()};
}

}  // namespace attnctl
