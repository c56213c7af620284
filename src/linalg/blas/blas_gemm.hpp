#pragma once

#include "base/matrix_view.hpp"

// Products by the BLAS alone, whatever the number of rows: what ours are measured against.
namespace attnctl::linalg {

/// c = a b; a [m, k], b [k, n], c [m, n]. Throws std::logic_error where shapes do not fit.
void blas_gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
/// c = a b^T; a [m, k], b [n, k], c [m, n]. Throws std::logic_error where shapes do not fit.
void blas_gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

}  // namespace attnctl::linalg
