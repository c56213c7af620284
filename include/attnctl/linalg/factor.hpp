#pragma once

#include "attnctl/base/matrix_view.hpp"

#include <cstddef>
#include <vector>

namespace attnctl {

/// Singular values, and vectors where asked for, of a product.
struct ProductSvd {
  std::vector<double> values;  // [r] descending
  OwnedMatrix<double> left;  // [r, rows of a]: row i is the i-th left singular vector; empty unless asked for
  OwnedMatrix<double> right;  // [r, rows of b]
};

/// SVD of a b^T without forming it: thin QR of both, SVD of the k x k core (definitions.md; TransformerLens'
/// FactoredMatrix). a [m, k], b [n, k]; r = min(m, n, k). Throws Error(non_finite) where a or b holds a NaN
/// or an infinity.
[[nodiscard]] ProductSvd svd_of_product(MatrixView<const double> a, MatrixView<const double> b, bool vectors);

/// Singular values of a matrix [m, n], descending, min(m, n) of them.
[[nodiscard]] std::vector<double> singular_values(MatrixView<const double> a);

}  // namespace attnctl
