#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "linalg/encoded.hpp"

namespace attnctl::linalg {

/// Sums and the maximum of the attention weights w_j of one query. offset + j is the position of key j minus
/// the position of the query, so `offset` is negative if key 0 is before the query.
struct WeightMoments {
  double total = 0;            // sum w_j
  double distance = 0;         // sum w_j |offset + j|
  double signed_distance = 0;  // sum w_j (offset + j)
  float largest = 0;           // maximum of w_j
};

/// The largest element of x, and the sum of e^(x - largest). ln sum e^x is largest + ln(sum).
struct ExpSum {
  float largest = 0;
  double sum = 0;
};

/// Vector kernels, compiled for several instruction sets and chosen at run time. With one instruction set,
/// the order of summation does not depend on the number of threads or on the alignment of a row.
///
/// Results of activations differ from the exact value by at most 2 units in the last place, also if they are
/// subnormal; gelu_erf differs by at most 4 units for x < -0.5. e^x in softmax differs by at most 2 units.
/// NaN gives NaN. gelu and silu of -inf give NaN.
struct Kernels {
  std::string_view name;  // "avx512", "avx2", "sse2"; "baseline" if the processor is not x86-64

  /// Computes pattern = softmax(scores) for one row of attention. Both spans may be the same memory. If a
  /// score is NaN or +inf, all weights are NaN. Otherwise, a score of -inf gives exactly 0. If all scores are
  /// -inf (a fully masked row), writes zeros and returns false; otherwise returns true.
  bool (*softmax)(std::span<const float> scores, std::span<float> pattern);

  /// Computes out = (x - mean) / sqrt(variance + eps) * gain + bias. An empty gain counts as 1, an empty bias
  /// as 0.
  void (*layer_norm)(std::span<const float> x, std::span<const float> gain, std::span<const float> bias,
                     float eps, std::span<float> out);
  /// Computes out = x / sqrt(mean(x^2) + eps) * gain. An empty gain counts as 1.
  void (*rms_norm)(std::span<const float> x, std::span<const float> gain, float eps, std::span<float> out);

  void (*add)(std::span<const float> x, std::span<float> out);       // out += x
  void (*multiply)(std::span<const float> x, std::span<float> out);  // out *= x
  void (*scale)(double factor,
                std::span<float> x);      // x *= factor; the factor is not rounded to float
  void (*gelu_erf)(std::span<float> x);   // x = x / 2 (1 + erf(x / sqrt 2))
  void (*gelu_tanh)(std::span<float> x);  // x = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  void (*silu)(std::span<float> x);       // x = x / (1 + e^-x)
  void (*relu)(std::span<float> x);
  void (*relu_squared)(std::span<float> x);
  void (*tanh)(std::span<float> x);

  /// Returns the sum of x ln x for x >= 0 (0 ln 0 = 0). Adds the terms of a block of x in float, and the sums
  /// of the blocks in double. NaN gives NaN.
  double (*sum_x_log_x)(std::span<const float> x);
  /// Returns the sum of (a + b) ln(a + b), computed like sum_x_log_x.
  double (*sum_x_log_x_of_sum)(std::span<const float> a, std::span<const float> b);
  /// Returns the moments of a row of weights, added like sum_x_log_x. Weights must not be negative. If a
  /// weight is NaN or infinite, the sums are not finite.
  WeightMoments (*weight_moments)(std::span<const float> weights, std::ptrdiff_t offset);
  /// Return the sum of x, of e^(x - largest element), and of w (a - b), added like sum_x_log_x.
  double (*sum)(std::span<const float> x);
  ExpSum (*exp_sum)(std::span<const float> x);
  double (*weighted_difference)(std::span<const float> w, std::span<const float> a, std::span<const float> b);
  bool (*all_finite)(std::span<const float> x);  // returns true if x has no NaN and no infinity
  std::array<Decoders, kEncodings> decoders;     // indexed by NumberEncoding
};

/// A product: c = alpha a b, or c += alpha a b if `accumulate` is true. nt and nt_many use b^T instead of b.
/// Matrices are row-major; a stride is in floats. c must not overlap a or b.
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

/// A product with an encoded b.
struct EncodedProduct {
  Product product;  // without its members b and b_stride
  const EncodedMatrix* b = nullptr;
  bool transposed = false;  // b is [n, k]; its transpose is multiplied
  EncodingBlock block;      // of b
  Decoders decode;
};

/// Matrix products for one instruction set. For a product with few rows, a BLAS spends most of its time on
/// packing b. The kernels for few rows read b in place where this is faster, and prefetch its next elements.
/// For many rows, a set has its own kernels only if they are faster than the BLAS. The order in
/// which one kernel adds the terms of an output element does not depend on m or n.
struct GemmKernels {
  using Multiply = void (*)(const Product& product,
                            float* workspace);  // has kGemmWorkspace floats
  std::string_view name;

  Multiply nt;                // few rows; computes a b^T, b is [n, k]
  Multiply nn;                // few rows; computes a b, b is [k, n]
  Multiply nt_many, nn_many;  // the same for many rows; null if the BLAS is as fast
  /// Multiplies a by the columns [first_col, first_col + n) of a packed b. The packed b consists of panels
  /// with panel_cols columns and at least k rows, which begin b_stride floats apart.
  void (*panels)(const Product& product, std::size_t first_col);
  std::size_t panel_cols;
  /// Pack one panel of at most panel_cols columns: of b [k, n], or of b^T from b [n, k].
  using Pack = void (*)(const float* b, std::size_t b_stride, std::size_t k, std::size_t n, float* panel);
  Pack pack, pack_transposed;
  void (*encoded)(const EncodedProduct& product, float* workspace);  // for any number of rows

  /// From this number of rows on, nt_many and nn_many, or the BLAS, are used. Measured by bench/micro.
  std::size_t nt_rows, nn_rows;
};

/// Number of workspace floats that a product needs. The workspace must be aligned to 64 bytes.
inline constexpr std::size_t kGemmWorkspace = std::size_t{1} << 17U;

/// Return the set with this name, or null if this CPU or build does not support it. An empty name gives the
/// fastest set.
[[nodiscard]] const Kernels* kernels_named(std::string_view name);
[[nodiscard]] const GemmKernels* gemm_kernels_named(std::string_view name);

/// Return the fastest set of kernels that this CPU and build support.
[[nodiscard]] inline const Kernels& kernels() {
  static const Kernels& best = *kernels_named("");
  return best;
}
[[nodiscard]] inline const GemmKernels& gemm_kernels() {
  static const GemmKernels& best = *gemm_kernels_named("");
  return best;
}

[[nodiscard]] inline bool all_finite(std::span<const float> x) {
  return kernels().all_finite(x);
}
[[nodiscard]] inline bool all_finite(std::span<const double> x) {
  bool finite = true;  // no early exit, so that the loop is vectorised
  for (const double value : x) finite &= std::abs(value) <= std::numeric_limits<double>::max();
  return finite;
}

/// These return the set of one instruction set, or null if the build does not contain it. They do not check
/// whether the CPU supports the instructions.
[[nodiscard]] const Kernels* baseline_kernels();
[[nodiscard]] const Kernels* avx2_kernels();
[[nodiscard]] const Kernels* avx512_kernels();
[[nodiscard]] const GemmKernels* baseline_gemm_kernels();
[[nodiscard]] const GemmKernels* avx2_gemm_kernels();
[[nodiscard]] const GemmKernels* avx512_gemm_kernels();

}  // namespace attnctl::linalg
