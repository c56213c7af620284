#pragma once

#include <cstddef>
#include <string_view>

namespace attnctl::linalg {

/// c = alpha a b, or c += alpha a b. The row-major operands are told by where they begin and how far their
/// rows are apart. c overlaps neither.
struct Product {
  std::size_t m = 0, n = 0, k = 0;  // c [m, n], k the inner extent
  const float* a = nullptr;         // [m, k]
  std::size_t a_stride = 0;
  const float* b = nullptr;  // as each kernel says
  std::size_t b_stride = 0;
  float* c = nullptr;
  std::size_t c_stride = 0;
  float alpha = 1;
  bool accumulate = false;
  const float* bias = nullptr;  // [n], added to each row of c at the end; of nt_many and nn_many alone
};

/// Products. On few rows a BLAS spends its time on laying out the weights for a kernel that then hardly uses
/// them; these read each weight once, where it is stored, and ask memory for the next ones meanwhile. On many
/// rows a set has its own where it is faster than the BLAS that goes with it.
/// With each function an element's value depends on k alone, never on m, n or what lies beside it.
struct GemmKernels {
  using Multiply = void (*)(const Product& product, float* room);
  std::string_view name;

  Multiply nt;                // few rows, b [n, k], transposed: sums along both rows
  Multiply nn;                // few rows, b [k, n]
  Multiply nt_many, nn_many;  // null: the BLAS is as fast or faster
  /// b laid out in panels of `panel_cols` columns, each [k, panel_cols] and `b_stride` floats behind the one
  /// before, aligned to 64 bytes; the columns [first_col, first_col + n) of it.
  void (*panels)(const Product& product, std::size_t first_col);
  std::size_t panel_cols;
  /// Lay out one panel of at most `panel_cols` columns of b [k, n], or of b [n, k] as b^T; columns that are
  /// missing are zeros or not read by `panels`.
  using LayOut = void (*)(const float* b, std::size_t b_stride, std::size_t k, std::size_t n, float* panel);
  LayOut lay_out, lay_out_transposed;

  /// From so many rows on they are many, by measurement (bench/micro).
  std::size_t nt_rows, nn_rows;
};

/// Floats that products want to have, aligned to 64 bytes.
inline constexpr std::size_t gemm_room = std::size_t{1} << 17U;

/// The set that goes with kernels(), and named ones: null where this CPU or build lacks it.
[[nodiscard]] const GemmKernels& gemm_kernels();
[[nodiscard]] const GemmKernels* gemm_kernels_named(std::string_view name);

/// The sets that this build holds; null where it was not compiled for one.
[[nodiscard]] const GemmKernels* baseline_gemm_kernels();
[[nodiscard]] const GemmKernels* avx2_gemm_kernels();
[[nodiscard]] const GemmKernels* avx512_gemm_kernels();

}  // namespace attnctl::linalg
