#pragma once

#include <complex>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"

// Decompositions by LAPACK, and ranks. All decompositions throw Error(non_finite) if an argument contains a
// NaN or an infinity, std::logic_error if a shape is wrong, and std::runtime_error if LAPACK fails. Singular
// vectors and eigenvectors are returned as rows. The element of largest magnitude is positive in eigenvectors
// and in left singular vectors; the sign of a right singular vector follows from the left one.

namespace attnctl::linalg {

/// The singular values of a matrix product, and the singular vectors of the largest ones.
struct ProductSvd {
  std::vector<double> values;  // [r], descending; r = min(m, n, k)
  OwnedMatrix<double> left;    // [t, m]: row i is the i-th left singular vector; t = min(vectors, r)
  OwnedMatrix<double> right;   // [t, n]
};

/// Computes the SVD of a b^T for a [m, k] and b [n, k]: the QR decompositions of a and b, then the SVD of R_a
/// R_b^T, which is at most k x k. The arguments are a^T [k, m] and b^T [k, n]; both may be overwritten.
/// `vectors` is the wanted number of left and of right singular vectors. The number of singular values is r =
/// min(m, n, k).
[[nodiscard]] ProductSvd svd_of_product(MatrixView<double> a_columns, MatrixView<double> b_columns,
                                        std::size_t vectors);

/// Returns R^T [k, min(m, k)] of a decomposition a = Q R of a [m, k] with R^T R = a^T a: the thin QR
/// decomposition if m > k, otherwise R = a. The argument is a^T [k, m] and may be overwritten.
[[nodiscard]] OwnedMatrix<double> triangle_of(MatrixView<double> columns);

/// Returns the min(m, n) singular values of a matrix [m, n], descending.
[[nodiscard]] std::vector<double> singular_values(MatrixView<const double> a);

/// The largest singular values of a matrix, and the Frobenius norm of the matrix without them.
struct LeadingValues {
  std::vector<double> values;  // descending
  double rest = 0;
};

/// Returns all singular values of a matrix [m, n] if there are at most `most`. Otherwise returns those of its
/// projection to a random subspace of `most` dimensions (Halko, Martinsson and Tropp 2011, algorithm 4.1):
/// all values that are not 0, up to rounding, if the rank is at most `most`.
[[nodiscard]] LeadingValues leading_singular_values(MatrixView<const double> a, std::size_t most);

/// The factors of a matrix a [k, d] = t u, where u [r, d] has orthonormal rows and r = min(k, d).
struct RowFactors {
  OwnedMatrix<double> t = {};  // [k, r]
  /// The inverse of t [k, k] if the condition number of a is below 1000. Then u = inverse a is not stored.
  OwnedMatrix<double> inverse = {};
  OwnedMatrix<double> u = {};  // [r, d]: the first rank rows are a basis of the row space
  std::size_t rank = 0;        // numerical_rank()
};

/// Computes the factors from the Cholesky decomposition of `squares` = a a^T if the condition number is below
/// 1000, and otherwise by svd_of_product(). The rows of u are orthonormal within about 1e-9.
[[nodiscard]] RowFactors row_factors(MatrixView<const double> a, const OwnedMatrix<double>& squares);
/// Returns an orthonormal basis [rank, d] of the row space of a.
[[nodiscard]] OwnedMatrix<double> row_basis(MatrixView<const double> a, const RowFactors& factors);

/// Returns the principal angles between the row spaces of two matrices with orthonormal rows, [r_a, d] and
/// [r_b, d], in radians, ascending. There are min(r_a, r_b). Angles up to 45 degrees are computed from their
/// sines and the others from their cosines (Bjorck and Golub 1973). The error of small angles is at most
/// about 1e-8 times the largest angle.
[[nodiscard]] std::vector<double> principal_angles(MatrixView<const double> a, MatrixView<const double> b);
/// Returns the principal angles between the row spaces of two matrices a and b of the same shape [k, d], of
/// which only the products [k, k] of their difference d = b - a are needed: d a^T and d d^T. Both RowFactors
/// need an `inverse`. The error is about 1e-8 |d| / |b| if the row spaces are nearly equal.
[[nodiscard]] std::vector<double> principal_angles(const RowFactors& a, const RowFactors& b,
                                                   MatrixView<const double> difference_a,
                                                   MatrixView<const double> difference_squares);

/// Returns the eigenvalues of a square matrix [n, n]; complex conjugate eigenvalues are adjacent.
[[nodiscard]] std::vector<std::complex<double>> eigenvalues(MatrixView<const double> a);

struct SymmetricEigen {
  std::vector<double> values;   // [n], descending
  OwnedMatrix<double> vectors;  // [n, n]: row i is the eigenvector of values[i], with length 1
};

/// Computes the eigenvalues and eigenvectors of a symmetric matrix [n, n]. Reads only the lower triangle.
[[nodiscard]] SymmetricEigen symmetric_eigen(MatrixView<const double> a);

// Ranks of a matrix, computed from its r singular values s >= 0 in any order. effective_rank and stable_rank
// return nullopt if all values are zero, if there are no values, or if a value is not finite.

/// Returns the effective rank (Roy and Vetterli 2007, definition 1): exp of the entropy, in nats, of s /
/// sum(s). The result is in [1, r], except for rounding errors. Uses s, not s^2.
[[nodiscard]] std::optional<double> effective_rank(std::span<const double> singular_values);

/// Returns the stable rank sum(s^2) / max(s)^2 (Rudelson and Vershynin 2007). This is the squared Frobenius
/// norm divided by the squared spectral norm. The result is in [1, r].
[[nodiscard]] std::optional<double> stable_rank(std::span<const double> singular_values);

/// Returns the number of values above max(rows, cols) * epsilon * max(s), where rows and cols are the extents
/// of the matrix. With the default epsilon, this is the tolerance of numpy.linalg.matrix_rank for a float32
/// matrix. The result is in [0, r]; it is 0 for a zero matrix, and nullopt if a value is not finite.
[[nodiscard]] std::optional<std::size_t> numerical_rank(
    std::span<const double> singular_values, std::size_t rows, std::size_t cols,
    double epsilon = std::numeric_limits<float>::epsilon());

}  // namespace attnctl::linalg
