#include "linalg/gemm.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cblas.h>

#include "linalg/kernels/kernels.hpp"

namespace attnctl::linalg {
namespace {

/// Computes c = beta c. As in BLAS, beta = 0 also overwrites NaN.
template <typename T>
void scale(MatrixView<T> c, T beta) {
  for (std::size_t r = 0; r < c.rows; ++r) {
    for (T& value : c.row(r)) value = beta == 0 ? T(0) : beta * value;
  }
}

/// Computes the product with one of attnctl's own kernels, if there is one for this number of rows and beta
/// is 0 or 1. Returns true if it computed the product. Makes `bias` empty if the kernel added the bias.
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

template <typename Work>
double best_seconds(std::size_t repeat, const Work& work) {
  double best = std::numeric_limits<double>::infinity();
  work();
  for (std::size_t i = 0; i < std::max<std::size_t>(repeat, 1); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count());
  }
  return std::max(best, 1e-9);  // avoids a time of 0: 1e-9 s is the resolution of the clock
}

/// Calls work(first, count) for up to pool.size() ranges that together cover [0, size).
template <typename Work>
void run_in_slabs(Pool& pool, std::size_t size, const Work& work) {
  const std::size_t slab = (size + pool.size() - 1) / pool.size();
  pool.run((size + slab - 1) / slab, [&](std::size_t task, std::size_t /*worker*/) {
    const std::size_t first = task * slab;
    work(first, std::min(slab, size - first));
  });
}

/// Returns the sum of the words. Uses 16 independent sums, which the processor computes in parallel.
std::uint64_t sum_of(std::span<const std::uint64_t> words) {
  std::array<std::uint64_t, 16> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= words.size(); i += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += words[i + lane];
  }
  return std::accumulate(words.begin() + static_cast<std::ptrdiff_t>(i), words.end(),
                         std::accumulate(lanes.begin(), lanes.end(), std::uint64_t{0}));
}

}  // namespace

int blas_int(std::size_t value) {
  if (!std::in_range<int>(value))
    throw std::logic_error("a matrix extent does not fit the integers of BLAS and LAPACK");
  return static_cast<int>(value);
}

template <typename T>
void gemm(bool transpose_a, bool transpose_b, Operand<T> a, Operand<T> b, MatrixView<T> c, Factor<T> alpha,
          Factor<T> beta, Backend backend, std::span<const T>* bias) {
  const std::size_t m = transpose_a ? a.cols : a.rows;
  const std::size_t inner = transpose_a ? a.rows : a.cols;
  const std::size_t inner_b = transpose_b ? b.cols : b.rows;
  const std::size_t n = transpose_b ? b.rows : b.cols;
  if (inner != inner_b || c.rows != m || c.cols != n)
    throw std::logic_error("the shapes of a matrix product do not match");
  if (c.empty()) return;
  if (inner == 0) return scale(c, beta);
  for (const std::size_t each : {m, n, inner, a.stride, b.stride, c.stride}) (void)blas_int(each);
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
          blas_int(m), blas_int(n), blas_int(inner), alpha, a.data, blas_int(a.stride), b.data,
          blas_int(b.stride), beta, c.data, blas_int(c.stride));
}

template void gemm<float>(bool, bool, Operand<float>, Operand<float>, MatrixView<float>, float, float,
                          Backend, std::span<const float>*);
template void gemm<double>(bool, bool, Operand<double>, Operand<double>, MatrixView<double>, double, double,
                           Backend, std::span<const double>*);

OwnedMatrix<double> squares(MatrixView<const double> a) {
  OwnedMatrix<double> c(a.rows, a.rows);
  if (a.empty()) return c;
  cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, blas_int(a.rows), blas_int(a.cols), 1, a.data,
              blas_int(a.stride), 0, c.view().data, blas_int(a.rows));
  for (std::size_t r = 0; r < c.rows(); ++r) {
    for (std::size_t i = r + 1; i < c.cols(); ++i) c(r, i) = c(i, r);
  }
  return c;
}

void gemm_biased(bool transpose_b, MatrixView<const float> a, MatrixView<const float> b,
                 std::span<const float> bias, MatrixView<float> c, float beta) {
  if (!bias.empty() && bias.size() != c.cols) throw std::logic_error("the extent of a bias does not match");
  gemm(false, transpose_b, a, b, c, 1, beta, Backend::fastest, &bias);
  if (bias.empty()) return;
  for (std::size_t r = 0; r < c.rows; ++r) kernels().add(bias, c.row(r));
}

float* PackedMatrix::resize(std::size_t rows, std::size_t cols) {
  const std::size_t width = gemm_kernels().panel_cols;
  rows_ = rows;
  cols_ = cols;
  return panels_.take(rows, (cols + width - 1) / width * width).data;
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
  for (std::size_t first = 0; first < b.rows; first += set.panel_cols, to += set.panel_cols * b.cols)
    set.pack_transposed(b.data + first * b.stride, b.stride, b.cols, std::min(set.panel_cols, b.rows - first),
                        to);
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

double measure_sgemm(Pool& pool, GemmShape shape, std::size_t repeat) {
  if (shape.m == 0 || shape.k == 0 || shape.n == 0)
    throw std::logic_error("an extent of the product to measure is 0");
  OwnedMatrix<float> a(shape.m, shape.k);
  OwnedMatrix<float> b(shape.k, shape.n);
  OwnedMatrix<float> c(shape.m, shape.n);
  std::ranges::fill(a.values(), 0.5F);
  std::ranges::fill(b.values(), 0.25F);
  const auto multiply = [&](std::size_t first, std::size_t count) {
    const bool by_rows = shape.m >= shape.n;
    const MatrixView<const float> rows = by_rows ? a.view().row_range(first, count) : a.view();
    const MatrixView<const float> columns = by_rows ? b.view() : b.view().col_range(first, count);
    gemm(false, false, rows, columns,
         by_rows ? c.view().row_range(first, count) : c.view().col_range(first, count), 1, 0, Backend::blas);
  };
  const double seconds =
      best_seconds(repeat, [&] { run_in_slabs(pool, std::max(shape.m, shape.n), multiply); });
  return 2 * static_cast<double>(shape.m) * static_cast<double>(shape.k) * static_cast<double>(shape.n) /
         seconds / 1e9;
}

double measure_read(Pool& pool, std::size_t bytes, std::size_t repeat) {
  std::vector<std::uint64_t> words(std::max<std::size_t>(bytes / sizeof(std::uint64_t), 1), 1);
  std::atomic<std::uint64_t> sum = 0;
  const double seconds = best_seconds(repeat, [&] {
    sum = 0;
    run_in_slabs(pool, words.size(), [&](std::size_t first, std::size_t count) {
      sum += sum_of(std::span(words).subspan(first, count));
    });
  });
  // Without this check, the compiler could remove the reads.
  if (sum != words.size()) throw std::logic_error("memory does not hold what was written");
  return static_cast<double>(words.size() * sizeof(std::uint64_t)) / seconds / 1e9;
}

}  // namespace attnctl::linalg
