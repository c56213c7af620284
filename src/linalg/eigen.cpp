#include "linalg/eigen.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include <fmt/format.h>
#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xtensor.hpp>

#include "base/error.hpp"

namespace attnctl {
namespace {

using ColumnMajor = xt::xtensor<double, 2, xt::layout_type::column_major>;
using Vector = xt::xtensor<double, 1>;

/// A copy for LAPACK to overwrite.
ColumnMajor checked_copy(MatrixView<const double> a) {
  if (a.rows != a.cols) throw std::logic_error("eigenvalues are those of a square matrix");
  ColumnMajor copy = ColumnMajor::from_shape({a.rows, a.cols});
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < a.cols; ++c) {
      if (!std::isfinite(a(r, c))) {
        fail(Status::non_finite, "a matrix holds a value in row {} that is not finite; it has no eigenvalues",
             r);
      }
      copy(r, c) = a(r, c);
    }
  }
  return copy;
}

void require_success(int info, const char* routine) {
  if (info != 0) throw std::runtime_error(fmt::format("LAPACK {} ended with {}", routine, info));
}

/// An eigenvector is known up to its sign: its entry of largest magnitude, the first of equal ones, is made
/// positive.
void fix_sign(std::span<double> vector) {
  const auto largest = std::max_element(vector.begin(), vector.end(),
                                        [](double a, double b) { return std::abs(a) < std::abs(b); });
  if (largest == vector.end() || *largest >= 0) return;
  for (double& value : vector) value = -value;
}

}  // namespace

std::vector<std::complex<double>> eigenvalues(MatrixView<const double> a) {
  ColumnMajor copy = checked_copy(a);
  if (a.empty()) return {};
  Vector real = Vector::from_shape({a.rows});
  Vector imaginary = Vector::from_shape({a.rows});
  ColumnMajor none = ColumnMajor::from_shape({1, 1});
  require_success(xt::lapack::geev(copy, 'N', 'N', real, imaginary, none, none), "dgeev");
  std::vector<std::complex<double>> values;
  values.reserve(a.rows);
  for (std::size_t i = 0; i < a.rows; ++i) values.emplace_back(real(i), imaginary(i));
  return values;
}

SymmetricEigen symmetric_eigen(MatrixView<const double> a) {
  ColumnMajor copy = checked_copy(a);
  SymmetricEigen result{std::vector<double>(a.rows), OwnedMatrix<double>(a.rows, a.rows)};
  if (a.empty()) return result;
  Vector ascending = Vector::from_shape({a.rows});
  require_success(xt::lapack::syevd(copy, 'V', 'L', ascending), "dsyevd");
  for (std::size_t i = 0; i < a.rows; ++i) {
    const std::size_t from = a.rows - 1 - i;
    result.values[i] = ascending(from);
    for (std::size_t c = 0; c < a.rows; ++c) result.vectors(i, c) = copy(c, from);
    fix_sign(result.vectors.view().row(i));
  }
  return result;
}

}  // namespace attnctl
