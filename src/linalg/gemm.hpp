#pragma once

#include <cstddef>
#include <span>

#include "base/matrix_view.hpp"
#include "base/memory.hpp"

namespace attnctl::linalg {

// Matrix products on one thread. Views may be strided, and extents may be 0. Throws std::logic_error if the
// shapes do not match. The products use the BLAS, except that some float32 products use attnctl's own kernels
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
/// Compute the same as gemm_nn and gemm_nt, then add `bias` [n] to every row of c. `bias` may be empty.
void gemm_nn_biased(MatrixView<const float> a, MatrixView<const float> b, std::span<const float> bias,
                    MatrixView<float> c, float beta = 0);
void gemm_nt_biased(MatrixView<const float> a, MatrixView<const float> b, std::span<const float> bias,
                    MatrixView<float> c, float beta = 0);

/// The right operand b [k, n] of many products with few rows each, packed once for the kernels of this CPU.
/// The value of an output element depends only on its row of a, its column of b and the CPU, not on the
/// number of rows and columns of the product.
class PackedMatrix {
 public:
  /// Packs a copy of b [k, n]. The memory can grow but never shrinks.
  void pack(MatrixView<const float> b);
  /// Packs a copy of b^T, where b is [n, k].
  void pack_transposed(MatrixView<const float> b);

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }

  /// Computes c = alpha a B, where B is the part of b with k' rows from `first_row` on and n' columns from
  /// `first_col` on; a is [m, k'], c is [m, n']. Throws std::logic_error if this part is not inside b.
  void multiply(MatrixView<const float> a, std::size_t first_row, std::size_t first_col, MatrixView<float> c,
                float alpha = 1) const;

 private:
  float* resize(std::size_t rows, std::size_t cols);

  AlignedWorkspace panels_;
  std::size_t rows_ = 0, cols_ = 0;
};

/// Compute c = a b and c = a b^T with the BLAS, never with attnctl's own kernels. The command `bench` uses
/// these functions for comparison.
void blas_gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
void blas_gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

}  // namespace attnctl::linalg
