#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace attnctl {

/// Of weights w_j, each `offset` + j keys from the query (negative: before it).
struct WeightMoments {
  double total = 0;            // sum w_j
  double distance = 0;         // sum w_j |offset + j|
  double signed_distance = 0;  // sum w_j (offset + j)
  float largest = 0;
};

/// Vector kernels of the hot path, compiled for several instruction sets and chosen once at run time.
/// All accumulate sums in an order that depends on the chosen set only, never on threads or on where a row
/// lies.
///
/// Activations are within 2 units in the last place of the exact value, subnormal results included; gelu_erf
/// below -0.5 within 4, where its value is a tail that vanishes. A NaN gives a NaN, and so does gelu or
/// silu of -inf. e^x within softmax is within 2 as well (src/linalg/vector_math.hpp).
struct Kernels {
  std::string_view name;  // "avx512", "avx2", "sse2"; "baseline" on other processors

  /// One row of attention: pattern = softmax(scores), exact: the maximum is taken off, -inf gives exactly 0.
  /// Returns false, and fills zeros, where every score is -inf (a fully masked row). NaN scores give NaN.
  /// scores and pattern may be the same memory.
  bool (*softmax)(std::span<const float> scores, std::span<float> pattern);

  /// out = (x - mean) / sqrt(variance + eps) * gain + bias; gain or bias empty: 1, 0.
  void (*layer_norm)(std::span<const float> x, std::span<const float> gain, std::span<const float> bias,
                     float eps, std::span<float> out);
  /// out = x / sqrt(mean(x^2) + eps) * gain.
  void (*rms_norm)(std::span<const float> x, std::span<const float> gain, float eps, std::span<float> out);

  void (*add)(std::span<const float> x, std::span<float> out);       // out += x
  void (*multiply)(std::span<const float> x, std::span<float> out);  // out *= x
  void (*scale)(double factor, std::span<float> x);  // x *= factor, which is not rounded to float first
  void (*gelu_erf)(std::span<float> x);   // x / 2 (1 + erf(x / sqrt 2)); in place, as are those below
  void (*gelu_tanh)(std::span<float> x);  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  void (*silu)(std::span<float> x);       // x / (1 + e^-x)
  void (*relu)(std::span<float> x);
  void (*relu_squared)(std::span<float> x);
  void (*tanh)(std::span<float> x);

  /// sum of x ln x over x > 0 (0 ln 0 = 0), for entropies, in double across blocks; NaN where x has one.
  double (*sum_x_log_x)(std::span<const float> x);
  /// The same of the sums a[i] + b[i].
  double (*sum_x_log_x_of_sum)(std::span<const float> a, std::span<const float> b);
  /// In double across blocks; weights are not negative. Where one is not finite, neither is a sum of them.
  WeightMoments (*weight_moments)(std::span<const float> weights, std::ptrdiff_t offset);
  bool (*all_finite)(std::span<const float> x);  // no infinity and no NaN
};

/// The best set that this CPU has.
[[nodiscard]] const Kernels& kernels();
/// A named set, null where this CPU or build lacks it; tests compare them all.
[[nodiscard]] const Kernels* kernels_named(std::string_view name);

}  // namespace attnctl
