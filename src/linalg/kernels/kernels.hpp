#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

namespace attnctl {

/// Moments of attention weights w_j of keys at the distance offset + j from the query; negative before it.
struct WeightMoments {
  double total = 0;            // sum w_j
  double distance = 0;         // sum w_j |offset + j|
  double signed_distance = 0;  // sum w_j (offset + j)
  float largest = 0;
};

/// Vector kernels of the hot path, compiled for several instruction sets and chosen at run time. The order of
/// summation depends only on the set, not on threads or on the alignment of a row.
///
/// Activations are within 2 units in the last place of the exact value, subnormal results included; gelu_erf
/// within 4 below -0.5. NaN gives NaN, and so do gelu and silu of -inf. e^x within softmax is within 2.
struct Kernels {
  std::string_view name;  // "avx512", "avx2", "sse2"; "baseline" on other processors

  /// Computes pattern = softmax(scores) for one row of attention; they may be the same memory. Subtracts the
  /// maximum first; -inf gives exactly 0 and NaN gives NaN. Returns false and writes zeros if every score is
  /// -inf (a fully masked row).
  bool (*softmax)(std::span<const float> scores, std::span<float> pattern);

  /// out = (x - mean) / sqrt(variance + eps) * gain + bias. An empty gain is 1, an empty bias 0.
  void (*layer_norm)(std::span<const float> x, std::span<const float> gain, std::span<const float> bias,
                     float eps, std::span<float> out);
  /// out = x / sqrt(mean(x^2) + eps) * gain.
  void (*rms_norm)(std::span<const float> x, std::span<const float> gain, float eps, std::span<float> out);

  void (*add)(std::span<const float> x, std::span<float> out);       // out += x
  void (*multiply)(std::span<const float> x, std::span<float> out);  // out *= x
  void (*scale)(double factor,
                std::span<float> x);      // x *= factor, without rounding factor to float
  void (*gelu_erf)(std::span<float> x);   // x / 2 (1 + erf(x / sqrt 2)), in place
  void (*gelu_tanh)(std::span<float> x);  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  void (*silu)(std::span<float> x);       // x / (1 + e^-x)
  void (*relu)(std::span<float> x);
  void (*relu_squared)(std::span<float> x);
  void (*tanh)(std::span<float> x);

  /// Returns the sum of x ln x for x >= 0 (0 ln 0 = 0), with blocks added in double. NaN gives NaN.
  double (*sum_x_log_x)(std::span<const float> x);
  /// Returns the same for x = a + b.
  double (*sum_x_log_x_of_sum)(std::span<const float> a, std::span<const float> b);
  /// Returns the moments of a row, adding blocks in double. Weights must not be negative. If a weight is not
  /// finite, neither are the sums.
  WeightMoments (*weight_moments)(std::span<const float> weights, std::ptrdiff_t offset);
  bool (*all_finite)(std::span<const float> x);  // no infinity and no NaN
};

/// Returns the best set that this CPU supports.
[[nodiscard]] const Kernels& kernels();
/// Returns a named set, or null if this CPU or build lacks it. Tests compare all sets.
[[nodiscard]] const Kernels* kernels_named(std::string_view name);

/// Returns true if no number is an infinity or NaN.
[[nodiscard]] inline bool all_finite(std::span<const float> x) {
  return kernels().all_finite(x);
}
[[nodiscard]] inline bool all_finite(std::span<const double> x) {
  bool finite = true;  // no early exit, so that the loop is vectorised
  for (const double value : x) finite &= std::abs(value) <= std::numeric_limits<double>::max();
  return finite;
}

namespace linalg {

/// Return the sets of this build; null if it was not compiled for the instruction set.
[[nodiscard]] const Kernels* baseline_kernels();
[[nodiscard]] const Kernels* avx2_kernels();
[[nodiscard]] const Kernels* avx512_kernels();

}  // namespace linalg
}  // namespace attnctl
