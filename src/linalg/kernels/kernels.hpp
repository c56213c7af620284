#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

namespace attnctl::linalg {

/// Sums over the attention weights w_j of one query, where offset + j is the position of key j minus the
/// position of the query. `offset` is negative if the first key is before the query.
struct WeightMoments {
  double total = 0;            // sum w_j
  double distance = 0;         // sum w_j |offset + j|
  double signed_distance = 0;  // sum w_j (offset + j)
  float largest = 0;
};

/// Vector kernels of the forward pass, compiled for several instruction sets and chosen at run time. The
/// order of summation depends only on the instruction set, not on the number of threads or on the alignment
/// of a row.
///
/// Results of activations differ from the exact value by at most 2 units in the last place, also if they are
/// subnormal; gelu_erf differs by at most 4 units for x < -0.5. e^x in softmax differs by at most 2 units.
/// NaN gives NaN. gelu and silu of -inf give NaN.
struct Kernels {
  std::string_view name;  // "avx512", "avx2", "sse2"; "baseline" on other processors

  /// Computes pattern = softmax(scores) for one row of attention. Both spans may be the same memory.
  /// Subtracts the largest score first. If a score is NaN or +inf, all weights are NaN. Otherwise, a score of
  /// -inf gives exactly 0. If all scores are -inf (a fully masked row), writes zeros and returns false;
  /// otherwise returns true.
  bool (*softmax)(std::span<const float> scores, std::span<float> pattern);

  /// Computes out = (x - mean) / sqrt(variance + eps) * gain + bias. An empty gain counts as 1, an empty bias
  /// as 0.
  void (*layer_norm)(std::span<const float> x, std::span<const float> gain, std::span<const float> bias,
                     float eps, std::span<float> out);
  /// Computes out = x / sqrt(mean(x^2) + eps) * gain.
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

  /// Returns the sum of x ln x for x >= 0, with 0 ln 0 = 0. Partial sums of blocks are added in double. NaN
  /// gives NaN.
  double (*sum_x_log_x)(std::span<const float> x);
  /// Returns the sum of (a + b) ln(a + b), computed like sum_x_log_x.
  double (*sum_x_log_x_of_sum)(std::span<const float> a, std::span<const float> b);
  /// Returns the moments of a row of weights. Partial sums of blocks are added in double. Weights must not be
  /// negative. If a weight is NaN or infinite, the sums are not finite.
  WeightMoments (*weight_moments)(std::span<const float> weights, std::ptrdiff_t offset);
  bool (*all_finite)(std::span<const float> x);  // returns true if x has no NaN and no infinity
};

/// Returns the fastest set of kernels that this CPU supports.
[[nodiscard]] const Kernels& kernels();
/// Returns the set with this name, or null if this CPU or build does not support it. Tests compare all sets.
[[nodiscard]] const Kernels* kernels_named(std::string_view name);

/// Returns true if x contains no NaN and no infinity.
[[nodiscard]] inline bool all_finite(std::span<const float> x) {
  return kernels().all_finite(x);
}
[[nodiscard]] inline bool all_finite(std::span<const double> x) {
  bool finite = true;  // no early exit, so that the loop is vectorised
  for (const double value : x) finite &= std::abs(value) <= std::numeric_limits<double>::max();
  return finite;
}

/// Return the sets of this build; null if the build does not contain the set.
[[nodiscard]] const Kernels* baseline_kernels();
[[nodiscard]] const Kernels* avx2_kernels();
[[nodiscard]] const Kernels* avx512_kernels();

}  // namespace attnctl::linalg
