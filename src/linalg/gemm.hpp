#pragma once

#include <span>

#include "base/matrix_view.hpp"

namespace attnctl {

// Single-threaded products in float32 or float64 through cblas, with strides: any view serves without a copy.
// Shapes that do not fit are a programming error (std::logic_error). Zero extents are allowed. Where a has
// few rows, products in float32 go through kernels of attnctl's own (linalg/gemm_kernels.hpp).

/// c = alpha a b + beta c.        a [m, k], b [k, n], c [m, n]
void gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha = 1,
             float beta = 0);
void gemm_nn(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha = 1,
             double beta = 0);
/// c = alpha a b^T + beta c.      a [m, k], b [n, k], c [m, n]
void gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha = 1,
             float beta = 0);
void gemm_nt(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha = 1,
             double beta = 0);
/// c = a b + beta c + bias, or with b^T, of the shapes above; bias [n] is added to every row; empty: none.
void gemm_nn_biased(MatrixView<const float> a, MatrixView<const float> b, std::span<const float> bias,
                    MatrixView<float> c, float beta = 0);
void gemm_nt_biased(MatrixView<const float> a, MatrixView<const float> b, std::span<const float> bias,
                    MatrixView<float> c, float beta = 0);
/// c = alpha a^T b + beta c.      a [k, m], b [k, n], c [m, n]
void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha = 1,
             float beta = 0);
void gemm_tn(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha = 1,
             double beta = 0);

/// c = a b and c = a b^T by the BLAS, never by attnctl's own kernels: the yardstick of `bench`.
void blas_gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
void blas_gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

}  // namespace attnctl
