#pragma once

#include <complex>
#include <vector>

#include "base/matrix_view.hpp"

namespace attnctl {

// Both throw Error(non_finite) where the matrix holds a NaN or an infinity, and std::logic_error where it is
// not square.

/// Eigenvalues of any square matrix [n, n], as LAPACK gives them: conjugate pairs follow each other,
/// otherwise in no order.
[[nodiscard]] std::vector<std::complex<double>> eigenvalues(MatrixView<const double> a);

struct SymmetricEigen {
  std::vector<double> values;   // [n] descending
  OwnedMatrix<double> vectors;  // [n, n]: row i is the unit vector of value i, its largest entry positive
};

/// Of a symmetric matrix [n, n], of which the lower triangle is read.
[[nodiscard]] SymmetricEigen symmetric_eigen(MatrixView<const double> a);

}  // namespace attnctl
