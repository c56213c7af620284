#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"

namespace attnctl {

/// Singular values, and the strongest singular vectors where asked for, of a product.
struct ProductSvd {
  std::vector<double> values;  // [r] descending
  OwnedMatrix<double> left;    // [t, m]: row i is the i-th left singular vector; t = min(vectors, r)
  OwnedMatrix<double> right;   // [t, n]
};

/// SVD of a b^T, a [m, k] and b [n, k], without forming it: QR of both, SVD of the k x k core
/// (TransformerLens' FactoredMatrix). r = min(m, n, k). Both are given by columns, [k, m] and
/// [k, n], and are overwritten: who decomposes many keeps two buffers and no copy is made. `vectors`: how
/// many of each side to give. Throws Error(non_finite) where a or b holds a NaN or an infinity.
[[nodiscard]] ProductSvd svd_of_product(MatrixView<double> a_columns, MatrixView<double> b_columns,
                                        std::size_t vectors);

/// The triangle R of the thin QR a = Q R of a [m, k], so that R^T R = a^T a. `columns` is a by columns,
/// [k, m], and is overwritten; R is given so, too: [k, min(m, k)]. Throws Error(non_finite).
[[nodiscard]] OwnedMatrix<double> triangle_of(MatrixView<double> columns);

/// Singular values of a matrix [m, n], descending, min(m, n) of them.
[[nodiscard]] std::vector<double> singular_values(MatrixView<const double> a);

}  // namespace attnctl
