#pragma once

#include <cstddef>
#include <span>

#include "base/matrix_view.hpp"
#include "base/memory.hpp"

namespace attnctl {

// Single-threaded matrix products through cblas. Views may be strided, and extents may be 0. Shapes that do
// not match throw std::logic_error. Some products in float32 use attnctl's own kernels instead
// (linalg/kernels/gemm_kernels.hpp).

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
/// c = alpha a^T b + beta c.      a [k, m], b [k, n], c [m, n]
void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha = 1,
             float beta = 0);
void gemm_tn(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha = 1,
             double beta = 0);
/// Compute gemm_nn and gemm_nt, and add `bias` [n] to every row of c. The bias may be empty.
void gemm_nn_biased(MatrixView<const float> a, MatrixView<const float> b, std::span<const float> bias,
                    MatrixView<float> c, float beta = 0);
void gemm_nt_biased(MatrixView<const float> a, MatrixView<const float> b, std::span<const float> bias,
                    MatrixView<float> c, float beta = 0);

/// The right operand b [k, n] of many products with few rows each, packed once for the kernels of this CPU.
/// An element of a product depends only on the inner extent and the CPU, not on the rows and columns that are
/// computed together.
class PackedMatrix {
 public:
  /// Copies b [k, n]. The memory grows and never shrinks.
  void pack(MatrixView<const float> b);
  /// Copies b^T, b [n, k].
  void pack_transposed(MatrixView<const float> b);

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }

  /// c = alpha a B[first_row : first_row + k', first_col : first_col + n'].     a [m, k'], c [m, n']
  /// Throws std::logic_error if that part is not inside B.
  void multiply(MatrixView<const float> a, std::size_t first_row, std::size_t first_col, MatrixView<float> c,
                float alpha = 1) const;

 private:
  float* resize(std::size_t rows, std::size_t cols);

  AlignedWorkspace panels_;
  std::size_t rows_ = 0, cols_ = 0;
};

/// Compute c = a b and c = a b^T with the BLAS, never with attnctl's own kernels. `bench` compares against
/// them.
void blas_gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
void blas_gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

}  // namespace attnctl
