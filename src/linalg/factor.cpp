#include "attnctl/linalg/factor.hpp"

#include "attnctl/base/error.hpp"
#include "attnctl/linalg/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xtensor.hpp>

#include "linalg/blas_threads.hpp"

namespace attnctl {
namespace {

/// What LAPACK takes. Its memory is that of a row-major transpose, which is how `transposed` below shows it
/// to gemm: nothing is reordered between the two.
using ColumnMajor = xt::xtensor<double, 2, xt::layout_type::column_major>;

ColumnMajor column_major(MatrixView<const double> a) {
  ColumnMajor copy = ColumnMajor::from_shape({a.rows, a.cols});
  constexpr std::size_t block = 16;  // of rows: their part of a column is two cache lines
  for (std::size_t first = 0; first < a.rows; first += block) {
    const std::size_t last = std::min(first + block, a.rows);
    for (std::size_t c = 0; c < a.cols; ++c) {
      for (std::size_t r = first; r < last; ++r) copy.data()[c * a.rows + r] = a(r, c);
    }
  }
  return copy;
}

/// The transpose of a column-major matrix [m, n], as the row-major view [n, m] that its memory is.
MatrixView<const double> transposed(const ColumnMajor& a) {
  return {a.data(), a.shape()[1], a.shape()[0]};
}

void require_finite(MatrixView<const double> a) {
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (const double value : a.row(r)) {
      if (!std::isfinite(value)) {
        fail(Status::non_finite,
             "a matrix to decompose holds {} in row {}; its singular values are undefined", value, r);
      }
    }
  }
}

/// a = q r with r [min(m, k), k], and q [m, min(m, k)] where it was asked for.
struct ThinQr {
  ColumnMajor q;
  ColumnMajor r;
  bool identity = false;  // a is not tall: r is a itself and q the identity, left out
};

ThinQr thin_qr(MatrixView<const double> a, bool with_q) {
  ThinQr result;
  if (a.rows <= a.cols) {
    result.identity = true;
    result.r = column_major(a);
    return result;
  }
  const auto mode = with_q ? xt::linalg::qrmode::reduced : xt::linalg::qrmode::r;
  std::tie(result.q, result.r) = xt::linalg::qr(column_major(a), mode);
  return result;
}

/// Vectors in the coordinates of r, [count, min(m, k)] with its stride, to those of a: [count, m].
OwnedMatrix<double> lift(const ThinQr& qr, MatrixView<const double> vectors, std::size_t dimension) {
  OwnedMatrix<double> lifted(vectors.rows, dimension);
  if (qr.identity) {
    for (std::size_t i = 0; i < vectors.rows; ++i) {
      std::copy_n(vectors.row(i).begin(), dimension, lifted.view().row(i).begin());
    }
  } else {
    gemm_nn(vectors, transposed(qr.q), lifted.view());
  }
  return lifted;
}

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

/// The core r_a r_b^T [rows of r_a, rows of r_b], transposed in memory as LAPACK wants it.
ColumnMajor core_of(const ThinQr& a, const ThinQr& b) {
  const std::size_t rows = a.r.shape()[0];
  const std::size_t cols = b.r.shape()[0];
  ColumnMajor core = ColumnMajor::from_shape({rows, cols});
  gemm_tn(transposed(b.r), transposed(a.r), MatrixView<double>(core.data(), cols, rows));
  return core;
}

}  // namespace

ProductSvd svd_of_product(MatrixView<const double> a, MatrixView<const double> b, bool vectors) {
  if (a.cols != b.cols) throw std::logic_error("svd_of_product: the factors have unlike inner extents");
  require_finite(a);
  require_finite(b);
  ProductSvd result;
  if (a.empty() || b.empty()) return result;

  linalg::keep_blas_single_threaded();
  const ThinQr qr_a = thin_qr(a, vectors);
  const ThinQr qr_b = thin_qr(b, vectors);
  // [rows of r_a, r], [r], [r, rows of r_b]
  const auto [u, s, vt] = xt::linalg::svd(core_of(qr_a, qr_b), false, vectors);
  result.values.assign(s.begin(), s.end());
  if (!vectors) return result;

  const std::size_t rank = result.values.size();
  OwnedMatrix<double> right(rank, vt.shape()[1]);
  for (std::size_t i = 0; i < rank; ++i) {
    for (std::size_t c = 0; c < right.cols(); ++c) right(i, c) = vt(i, c);
  }
  result.left = lift(qr_a, transposed(u), a.rows);
  result.right = lift(qr_b, std::as_const(right).view(), b.rows);
  fix_signs(result.left, result.right);
  return result;
}

std::vector<double> singular_values(MatrixView<const double> a) {
  require_finite(a);
  if (a.empty()) return {};
  linalg::keep_blas_single_threaded();
  const auto s = std::get<1>(xt::linalg::svd(column_major(a), false, false));
  return {s.begin(), s.end()};
}

}  // namespace attnctl
