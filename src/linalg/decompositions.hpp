#pragma once

#include <complex>
#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"

// Decompositions by LAPACK. All throw Error(non_finite) if a matrix holds a NaN or an infinity. Singular
// vectors and eigenvectors are rows; the entry of largest magnitude is positive (in left singular vectors).

namespace attnctl {

/// The singular values of a product and the singular vectors of its largest singular values.
struct ProductSvd {
  std::vector<double> values;  // [r], descending
  OwnedMatrix<double> left;    // [t, m]: row i is the i-th left singular vector; t = min(vectors, r)
  OwnedMatrix<double> right;   // [t, n]
};

/// Computes the SVD of a b^T, a [m, k] and b [n, k], without forming the product: QR of both, then SVD of the
/// k x k core (as FactoredMatrix of TransformerLens). r = min(m, n, k). The arguments are the transposes
/// [k, m] and [k, n] and are overwritten. `vectors` is the number of singular vectors per side.
[[nodiscard]] ProductSvd svd_of_product(MatrixView<double> a_columns, MatrixView<double> b_columns,
                                        std::size_t vectors);

/// Computes the triangle R of the thin QR a = Q R, a [m, k], so that R^T R = a^T a. The argument is a^T [k,
/// m] and is overwritten. Returns R^T [k, min(m, k)].
[[nodiscard]] OwnedMatrix<double> triangle_of(MatrixView<double> columns);

/// Returns the min(m, n) singular values of a matrix [m, n], descending.
[[nodiscard]] std::vector<double> singular_values(MatrixView<const double> a);

/// Returns the eigenvalues of a square matrix [n, n]. Conjugate pairs are adjacent; otherwise the order is
/// unspecified.
[[nodiscard]] std::vector<std::complex<double>> eigenvalues(MatrixView<const double> a);

struct SymmetricEigen {
  std::vector<double> values;   // [n], descending
  OwnedMatrix<double> vectors;  // [n, n]: row i is the unit vector of value i
};

/// Decomposes a symmetric matrix [n, n]. Reads only its lower triangle.
[[nodiscard]] SymmetricEigen symmetric_eigen(MatrixView<const double> a);

}  // namespace attnctl
