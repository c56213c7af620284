#pragma once

#include <cstddef>
#include <string_view>

namespace attnctl::linalg {

/// c = alpha a b, or c += alpha a b. Operands are row-major with strides. c must not overlap a or b.
struct Product {
  std::size_t m = 0, n = 0, k = 0;  // c [m, n]; k is the inner extent
  const float* a = nullptr;         // [m, k]
  std::size_t a_stride = 0;
  const float* b = nullptr;  // layout depends on the kernel
  std::size_t b_stride = 0;
  float* c = nullptr;
  std::size_t c_stride = 0;
  float alpha = 1;
  bool accumulate = false;
  const float* bias = nullptr;  // [n], added to each row of c; only for nt_many and nn_many
};

/// Matrix products for one instruction set. For few rows a BLAS spends most of its time on packing the
/// weights. These kernels read each weight once in place and prefetch the next ones. For many rows a set has
/// its own kernels only if they are faster than the BLAS. The value of an element depends on k only, never on
/// m, n or the adjacent elements.
struct GemmKernels {
  using Multiply = void (*)(const Product& product,
                            float* workspace);  // [kGemmWorkspace]
  std::string_view name;

  Multiply nt;                // few rows, b [n, k] transposed
  Multiply nn;                // few rows, b [k, n]
  Multiply nt_many, nn_many;  // many rows; null if the BLAS is as fast
  /// Multiplies with the columns [first_col, first_col + n) of a packed b: panels [k, panel_cols], b_stride
  /// floats apart, aligned to 64 bytes.
  void (*panels)(const Product& product, std::size_t first_col);
  std::size_t panel_cols;
  /// Packs one panel of at most panel_cols columns of b [k, n], or of b^T, b [n, k].
  using Pack = void (*)(const float* b, std::size_t b_stride, std::size_t k, std::size_t n, float* panel);
  Pack pack, pack_transposed;

  /// Number of rows from which the *_many kernels or the BLAS are used; measured by bench/micro.
  std::size_t nt_rows, nn_rows;
};

/// Floats of workspace per product, aligned to 64 bytes.
inline constexpr std::size_t kGemmWorkspace = std::size_t{1} << 17U;

/// Return the best set for this CPU, and a named set: null if this CPU or build lacks it.
[[nodiscard]] const GemmKernels& gemm_kernels();
[[nodiscard]] const GemmKernels* gemm_kernels_named(std::string_view name);

/// Return the sets of this build; null if it was not compiled for the instruction set.
[[nodiscard]] const GemmKernels* baseline_gemm_kernels();
[[nodiscard]] const GemmKernels* avx2_gemm_kernels();
[[nodiscard]] const GemmKernels* avx512_gemm_kernels();

}  // namespace attnctl::linalg
