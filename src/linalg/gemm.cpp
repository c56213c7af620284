#include "linalg/gemm.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <cblas.h>

#include "base/checked.hpp"
#include "base/memory.hpp"
#include "linalg/kernels/gemm_kernels.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::linalg {
namespace {

int extent(std::size_t value) {
  const auto narrow = checked_narrow<int>(value);
  if (!narrow) throw std::logic_error("a matrix extent does not fit the integers of BLAS");
  return *narrow;
}

/// Computes c = beta c, the result of a product whose inner extent is 0. As in BLAS, beta = 0 also overwrites
/// NaN.
template <typename T>
void scale(MatrixView<T> c, T beta) {
  for (std::size_t r = 0; r < c.rows; ++r) {
    for (T& value : c.row(r)) value = beta == 0 ? T(0) : beta * value;
  }
}

/// Computes the product with attnctl's own kernels if there is one for this number of rows and beta is 0 or
/// 1. Returns whether it did. Makes `bias` empty if the kernel added the bias.
bool multiply_with_kernels(bool transpose_b, MatrixView<const float> a, MatrixView<const float> b,
                           MatrixView<float> c, float alpha, float beta, std::span<const float>* bias) {
  const GemmKernels& set = gemm_kernels();
  const bool few = c.rows < (transpose_b ? set.nt_rows : set.nn_rows);
  const auto multiply = transpose_b ? (few ? set.nt : set.nt_many) : (few ? set.nn : set.nn_many);
  if (multiply == nullptr || (beta != 0 && beta != 1)) return false;
  Product product{c.rows,   c.cols, a.cols,   a.data, a.stride, b.data,
                  b.stride, c.data, c.stride, alpha,  beta == 1};
  if (!few && bias != nullptr) product.bias = std::exchange(*bias, {}).data();
  thread_local AlignedWorkspace workspace;
  multiply(product, workspace.take(kGemmWorkspace));
  return true;
}

enum class Backend { fastest, blas };

/// Computes a product. `bias` may be null. Makes `bias` empty if the kernel added the bias.
template <typename T>
void gemm(bool transpose_a, bool transpose_b, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          T alpha, T beta, Backend backend = Backend::fastest, std::span<const T>* bias = nullptr) {
  const std::size_t m = transpose_a ? a.cols : a.rows;
  const std::size_t inner = transpose_a ? a.rows : a.cols;
  const std::size_t inner_b = transpose_b ? b.cols : b.rows;
  const std::size_t n = transpose_b ? b.rows : b.cols;
  if (inner != inner_b || c.rows != m || c.cols != n) {
    throw std::logic_error("the shapes of a matrix product do not match");
  }
  if (c.empty()) return;
  if (inner == 0) return scale(c, beta);
  for (const std::size_t each : {m, n, inner, a.stride, b.stride, c.stride}) (void)extent(each);
  if constexpr (std::is_same_v<T, float>) {
    const bool may_use_kernels = backend == Backend::fastest && !transpose_a;
    if (may_use_kernels && multiply_with_kernels(transpose_b, a, b, c, alpha, beta, bias)) return;
  }
  const auto product = [] {
    if constexpr (std::is_same_v<T, float>)
      return cblas_sgemm;
    else
      return cblas_dgemm;
  }();
  product(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
          extent(m), extent(n), extent(inner), alpha, a.data, extent(a.stride), b.data, extent(b.stride),
          beta, c.data, extent(c.stride));
}

void gemm_biased(bool transpose_b, MatrixView<const float> a, MatrixView<const float> b,
                 std::span<const float> bias, MatrixView<float> c, float beta) {
  if (!bias.empty() && bias.size() != c.cols) throw std::logic_error("the extent of a bias does not match");
  gemm<float>(false, transpose_b, a, b, c, 1, beta, Backend::fastest, &bias);
  if (bias.empty()) return;
  for (std::size_t r = 0; r < c.rows; ++r) kernels().add(bias, c.row(r));
}

}  // namespace

void blas_gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  gemm<float>(false, false, a, b, c, 1, 0, Backend::blas);
}

void blas_gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  gemm<float>(false, true, a, b, c, 1, 0, Backend::blas);
}

void gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha,
             float beta) {
  gemm<float>(false, false, a, b, c, alpha, beta);
}

void gemm_nn(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha,
             double beta) {
  gemm<double>(false, false, a, b, c, alpha, beta);
}

void gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha,
             float beta) {
  gemm<float>(false, true, a, b, c, alpha, beta);
}

void gemm_nn_biased(MatrixView<const float> a, MatrixView<const float> b, std::span<const float> bias,
                    MatrixView<float> c, float beta) {
  gemm_biased(false, a, b, bias, c, beta);
}

void gemm_nt_biased(MatrixView<const float> a, MatrixView<const float> b, std::span<const float> bias,
                    MatrixView<float> c, float beta) {
  gemm_biased(true, a, b, bias, c, beta);
}

void gemm_nt(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha,
             double beta) {
  gemm<double>(false, true, a, b, c, alpha, beta);
}

void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha,
             float beta) {
  gemm<float>(true, false, a, b, c, alpha, beta);
}

void gemm_tn(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha,
             double beta) {
  gemm<double>(true, false, a, b, c, alpha, beta);
}

float* PackedMatrix::resize(std::size_t rows, std::size_t cols) {
  const std::size_t width = gemm_kernels().panel_cols;
  const auto size = checked_mul((cols + width - 1) / width * width, rows);
  if (!size) throw std::bad_alloc();
  float* const data = panels_.take(*size);
  rows_ = rows;
  cols_ = cols;
  return data;
}

void PackedMatrix::pack(MatrixView<const float> b) {
  const GemmKernels& set = gemm_kernels();
  float* to = resize(b.rows, b.cols);
  for (std::size_t first = 0; first < b.cols; first += set.panel_cols, to += set.panel_cols * b.rows)
    set.pack(b.data + first, b.stride, b.rows, std::min(set.panel_cols, b.cols - first), to);
}

void PackedMatrix::pack_transposed(MatrixView<const float> b) {
  const GemmKernels& set = gemm_kernels();
  float* to = resize(b.cols, b.rows);
  for (std::size_t first = 0; first < b.rows; first += set.panel_cols, to += set.panel_cols * b.cols) {
    set.pack_transposed(b.data + first * b.stride, b.stride, b.cols, std::min(set.panel_cols, b.rows - first),
                        to);
  }
}

void PackedMatrix::multiply(MatrixView<const float> a, std::size_t first_row, std::size_t first_col,
                            MatrixView<float> c, float alpha) const {
  const bool inside =
      first_row <= rows_ && a.cols <= rows_ - first_row && first_col <= cols_ && c.cols <= cols_ - first_col;
  if (!inside || a.rows != c.rows) throw std::logic_error("the shapes of a packed product do not match");
  const GemmKernels& set = gemm_kernels();
  if (a.cols == 0) {
    for (std::size_t r = 0; r < c.rows; ++r) std::ranges::fill(c.row(r), 0.0F);
    return;
  }
  const std::size_t panel = rows_ * set.panel_cols;
  set.panels({c.rows, c.cols, a.cols, a.data, a.stride, panels_.get() + first_row * set.panel_cols, panel,
              c.data, c.stride, alpha, false},
             first_col);
}

}  // namespace attnctl::linalg
