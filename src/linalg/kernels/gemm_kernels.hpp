#pragma once

#include <cstddef>
#include <string_view>

namespace attnctl::linalg {

/// A product: c = alpha a b, or c += alpha a b if `accumulate` is true. The kernels nt and nt_many use b^T
/// instead of b. All matrices are row-major; a stride is the number of floats from one row to the next. c
/// must not overlap a or b.
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
  const float* bias = nullptr;  // [n], added to each row of c; used only by nt_many and nn_many
};

/// Matrix products for one instruction set. For a product with few rows, a BLAS spends most of its time on
/// packing the weights. The kernels for few rows read most weights in place and prefetch the next ones. For
/// many rows, a set has its own kernels only if they are faster than the BLAS. The value that one kernel
/// computes for an output element depends on its row of a and its column of b, not on m, n or other elements.
struct GemmKernels {
  using Multiply = void (*)(const Product& product,
                            float* workspace);  // has kGemmWorkspace floats
  std::string_view name;

  Multiply nt;                // few rows; computes a b^T, b is [n, k]
  Multiply nn;                // few rows; computes a b, b is [k, n]
  Multiply nt_many, nn_many;  // the same for many rows; null if the BLAS is as fast
  /// Multiplies a by the columns [first_col, first_col + n) of a packed b. The packed b consists of panels
  /// [k, panel_cols], which begin b_stride floats apart and are aligned to 64 bytes.
  void (*panels)(const Product& product, std::size_t first_col);
  std::size_t panel_cols;
  /// Packs one panel of at most panel_cols columns: `pack` takes b [k, n], `pack_transposed` packs b^T from b
  /// [n, k].
  using Pack = void (*)(const float* b, std::size_t b_stride, std::size_t k, std::size_t n, float* panel);
  Pack pack, pack_transposed;

  /// From this number of rows on, the *_many kernels or the BLAS are used. Measured by bench/micro.
  std::size_t nt_rows, nn_rows;
};

/// Number of workspace floats that a product needs. The workspace must be aligned to 64 bytes.
inline constexpr std::size_t kGemmWorkspace = std::size_t{1} << 17U;

/// gemm_kernels() returns the fastest set of kernels that this CPU supports. gemm_kernels_named() returns the
/// set with a given name, or null if this CPU or build does not support the set.
[[nodiscard]] const GemmKernels& gemm_kernels();
[[nodiscard]] const GemmKernels* gemm_kernels_named(std::string_view name);

/// Return the sets of this build; null if the build does not contain the set.
[[nodiscard]] const GemmKernels* baseline_gemm_kernels();
[[nodiscard]] const GemmKernels* avx2_gemm_kernels();
[[nodiscard]] const GemmKernels* avx512_gemm_kernels();

}  // namespace attnctl::linalg
