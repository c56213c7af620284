#pragma once

#include "attnctl/base/matrix_view.hpp"

namespace attnctl::linalg {

/// c = a b by the BLAS alone, whatever the number of rows: what ours is measured against.
/// Shapes [m, k], [k, n], [m, n]; throws std::logic_error where they do not fit.
void blas_gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

}  // namespace attnctl::linalg
