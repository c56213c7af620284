#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "base/matrix_view.hpp"
#include "base/memory.hpp"
#include "base/pool.hpp"

namespace attnctl::linalg {

// Matrix products on one thread. Views may be strided, and extents may be 0. Throws std::logic_error if the
// shapes do not match or do not fit the integers of BLAS. Uses the BLAS and, for some float32 products,
// attnctl's own kernels.

/// Returns the value as an integer of BLAS and LAPACK. Throws std::logic_error if it does not fit.
[[nodiscard]] int blas_int(std::size_t value);

/// Types of the constant operands and the factors of a product. T (float or double) is not deduced from them.
template <typename T>
using Operand = std::type_identity_t<MatrixView<const T>>;
template <typename T>
using Factor = std::type_identity_t<T>;

/// What computes a product: the fastest for its shape, or always the BLAS, for comparison.
enum class Backend { fastest, blas };

/// Computes c = alpha a b + beta c, with the transposes of a and b if requested. `bias` may be null. If a
/// kernel also added the bias to c, makes `*bias` empty; otherwise the bias is not added.
template <typename T>
void gemm(bool transpose_a, bool transpose_b, Operand<T> a, Operand<T> b, MatrixView<T> c, Factor<T> alpha,
          Factor<T> beta, Backend backend = Backend::fastest, std::span<const T>* bias = nullptr);

/// c = alpha a b + beta c.        a [m, k], b [k, n], c [m, n]
template <typename T>
void gemm_nn(Operand<T> a, Operand<T> b, MatrixView<T> c, Factor<T> alpha = 1, Factor<T> beta = 0) {
  gemm(false, false, a, b, c, alpha, beta);
}
/// c = alpha a b^T + beta c.      a [m, k], b [n, k], c [m, n]
template <typename T>
void gemm_nt(Operand<T> a, Operand<T> b, MatrixView<T> c, Factor<T> alpha = 1, Factor<T> beta = 0) {
  gemm(false, true, a, b, c, alpha, beta);
}
/// c = alpha a^T b + beta c.      a [k, m], b [k, n], c [m, n]
template <typename T>
void gemm_tn(Operand<T> a, Operand<T> b, MatrixView<T> c, Factor<T> alpha = 1, Factor<T> beta = 0) {
  gemm(true, false, a, b, c, alpha, beta);
}

// Return alpha a b, alpha a b^T and alpha a^T b as new matrices.
template <typename A, typename T = std::remove_const_t<A>>
[[nodiscard]] OwnedMatrix<T> product(MatrixView<A> a, Operand<T> b, Factor<T> alpha = 1) {
  OwnedMatrix<T> c(a.rows, b.cols);
  gemm_nn(a, b, c.view(), alpha);
  return c;
}
template <typename A, typename T = std::remove_const_t<A>>
[[nodiscard]] OwnedMatrix<T> product_nt(MatrixView<A> a, Operand<T> b, Factor<T> alpha = 1) {
  OwnedMatrix<T> c(a.rows, b.rows);
  gemm_nt(a, b, c.view(), alpha);
  return c;
}
template <typename A, typename T = std::remove_const_t<A>>
[[nodiscard]] OwnedMatrix<T> product_tn(MatrixView<A> a, Operand<T> b, Factor<T> alpha = 1) {
  OwnedMatrix<T> c(a.cols, b.cols);
  gemm_tn(a, b, c.view(), alpha);
  return c;
}

/// Returns a a^T [m, m] for a [m, n], with half the operations of product_nt().
[[nodiscard]] OwnedMatrix<double> squares(MatrixView<const double> a);

/// Computes the same as gemm_nn, or as gemm_nt if `transpose_b` is true, with alpha = 1. Then adds `bias` [n]
/// to every row of c. `bias` may be empty.
void gemm_biased(bool transpose_b, MatrixView<const float> a, MatrixView<const float> b,
                 std::span<const float> bias, MatrixView<float> c, float beta);

/// The right operand b [k, n] of many products with few rows each, packed once for the kernels of this CPU.
/// The order in which the terms of an output element are added does not depend on the number of rows and
/// columns of the product.
class PackedMatrix {
 public:
  /// Packs a copy of b [k, n]. The memory can grow but never shrinks.
  void pack(MatrixView<const float> b);
  /// As pack(), but for a matrix b^T [n, k]: packs its transpose b.
  void pack_transposed(MatrixView<const float> b);

  /// Computes c = alpha a B, where B is the part of b with k' rows from `first_row` on and n' columns from
  /// `first_col` on; a is [m, k'], c is [m, n']. Throws std::logic_error if this part is not inside b, or if
  /// a and c have different numbers of rows.
  void multiply(MatrixView<const float> a, std::size_t first_row, std::size_t first_col, MatrixView<float> c,
                float alpha = 1) const;

 private:
  float* resize(std::size_t rows, std::size_t cols);

  AlignedWorkspace panels_;
  std::size_t rows_ = 0, cols_ = 0;
};

// Measurements of the speed of this machine, for comparison with the speed of a forward pass.

/// The shape of a product: [m, k] times [k, n].
struct GemmShape {
  std::size_t m = 0, k = 0, n = 0;
};

/// Returns the GFLOP/s of the fastest of `repeat` float32 products by the BLAS after one warm-up; a
/// multiply-add counts as 2. Each worker computes, on one thread, a range of the rows of the product, or of
/// its columns if there are more columns than rows. Throws std::logic_error if m, k or n is 0.
[[nodiscard]] double measure_sgemm(Pool& pool, GemmShape shape, std::size_t repeat);

/// Returns the GB/s (10^9 bytes per second) of the fastest of `repeat` passes after one warm-up. In each
/// pass, all workers together read `bytes` of memory. To measure main memory, `bytes` must be larger than the
/// caches.
[[nodiscard]] double measure_read(Pool& pool, std::size_t bytes, std::size_t repeat);

}  // namespace attnctl::linalg
