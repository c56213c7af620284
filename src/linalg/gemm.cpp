#include "linalg/gemm.hpp"

#include <stdexcept>
#include <utility>

#include <cblas.h>

#include "base/checked.hpp"
#include "linalg/aligned_room.hpp"
#include "linalg/kernels/gemm_kernels.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl {
namespace {

/// The integer of cblas.
int extent(std::size_t value) {
  const auto narrow = checked_narrow<int>(value);
  if (!narrow) throw std::logic_error("a matrix extent does not fit the integers of BLAS");
  return *narrow;
}

void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, MatrixView<const float> a, MatrixView<const float> b,
              MatrixView<float> c, int inner, float alpha, float beta) {
  cblas_sgemm(CblasRowMajor, ta, tb, extent(c.rows), extent(c.cols), inner, alpha, a.data, extent(a.stride),
              b.data, extent(b.stride), beta, c.data, extent(c.stride));
}

void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, MatrixView<const double> a, MatrixView<const double> b,
              MatrixView<double> c, int inner, double alpha, double beta) {
  cblas_dgemm(CblasRowMajor, ta, tb, extent(c.rows), extent(c.cols), inner, alpha, a.data, extent(a.stride),
              b.data, extent(b.stride), beta, c.data, extent(c.stride));
}

/// c = beta c, where the inner extent is 0. As BLAS does, beta 0 overwrites: NaN in c does not stay.
template <typename T>
void scale(MatrixView<T> c, T beta) {
  for (std::size_t r = 0; r < c.rows; ++r) {
    for (T& value : c.row(r)) value = beta == 0 ? T(0) : beta * value;
  }
}

/// By our own kernels, where they are faster. A factor of c but 0 and 1 is left to the BLAS. Adds the bias
/// too where it can, and empties it then.
bool multiply_ourselves(bool transpose_b, MatrixView<const float> a, MatrixView<const float> b,
                        MatrixView<float> c, float alpha, float beta, std::span<const float>& bias) {
  const linalg::GemmKernels& own = linalg::gemm_kernels();
  const bool few = c.rows < (transpose_b ? own.nt_rows : own.nn_rows);
  const auto multiply = transpose_b ? (few ? own.nt : own.nt_many) : (few ? own.nn : own.nn_many);
  if (multiply == nullptr || (beta != 0 && beta != 1)) return false;
  linalg::Product product{c.rows,   c.cols, a.cols,   a.data, a.stride, b.data,
                          b.stride, c.data, c.stride, alpha,  beta == 1};
  if (!few && !bias.empty()) product.bias = std::exchange(bias, {}).data();
  thread_local linalg::AlignedRoom room;
  multiply(product, room.take(linalg::gemm_room));
  return true;
}

bool multiply_ourselves(bool /*transpose_b*/, MatrixView<const double> /*a*/, MatrixView<const double> /*b*/,
                        MatrixView<double> /*c*/, double /*alpha*/, double /*beta*/,
                        std::span<const double>& /*bias*/) {
  return false;
}

template <typename T>
struct Factors {
  T alpha, beta;
};

enum class By { fastest, blas };

/// `bias`: left as it is where it is still to be added.
template <typename T>
void gemm(bool transpose_a, bool transpose_b, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          Factors<T> factors, By by, std::span<const T>& bias) {
  const std::size_t m = transpose_a ? a.cols : a.rows;
  const std::size_t inner = transpose_a ? a.rows : a.cols;
  const std::size_t inner_b = transpose_b ? b.cols : b.rows;
  const std::size_t n = transpose_b ? b.rows : b.cols;
  if (inner != inner_b || c.rows != m || c.cols != n) {
    throw std::logic_error("the shapes of a matrix product do not fit");
  }
  if (c.empty()) return;
  if (inner == 0) return scale(c, factors.beta);
  for (const std::size_t each : {m, n, inner, a.stride, b.stride, c.stride}) (void)extent(each);
  const bool ours_may = by == By::fastest && !transpose_a;
  if (ours_may && multiply_ourselves(transpose_b, a, b, c, factors.alpha, factors.beta, bias)) return;
  multiply(transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, a, b, c,
           extent(inner), factors.alpha, factors.beta);
}

template <typename T>
void gemm(bool transpose_a, bool transpose_b, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          Factors<T> factors, By by = By::fastest) {
  std::span<const T> none;
  gemm<T>(transpose_a, transpose_b, a, b, c, factors, by, none);
}

void gemm_biased(bool transpose_b, MatrixView<const float> a, MatrixView<const float> b,
                 std::span<const float> bias, MatrixView<float> c, float beta) {
  if (!bias.empty() && bias.size() != c.cols) throw std::logic_error("the extent of a bias does not fit");
  gemm<float>(false, transpose_b, a, b, c, {1, beta}, By::fastest, bias);
  if (bias.empty()) return;
  for (std::size_t r = 0; r < c.rows; ++r) kernels().add(bias, c.row(r));
}

}  // namespace

void blas_gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  gemm<float>(false, false, a, b, c, {1, 0}, By::blas);
}

void blas_gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  gemm<float>(false, true, a, b, c, {1, 0}, By::blas);
}

void gemm_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha,
             float beta) {
  gemm<float>(false, false, a, b, c, {alpha, beta});
}

void gemm_nn(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha,
             double beta) {
  gemm<double>(false, false, a, b, c, {alpha, beta});
}

void gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha,
             float beta) {
  gemm<float>(false, true, a, b, c, {alpha, beta});
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
  gemm<double>(false, true, a, b, c, {alpha, beta});
}

void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, float alpha,
             float beta) {
  gemm<float>(true, false, a, b, c, {alpha, beta});
}

void gemm_tn(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c, double alpha,
             double beta) {
  gemm<double>(true, false, a, b, c, {alpha, beta});
}

}  // namespace attnctl
