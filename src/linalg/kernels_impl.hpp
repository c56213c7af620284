#pragma once

#include "attnctl/linalg/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include <xsimd/xsimd.hpp>

// The kernels of linalg/kernels.hpp for one instruction set, included by one source file for each set. All of
// it is in an unnamed namespace and calls no inline function of the standard library out of line: code that
// was compiled for a wider set must never be what the linker keeps for the others.

namespace attnctl::linalg {
namespace {

/// Elements that are summed in float before a sum goes on in double.
constexpr std::size_t sum_block = 1024;

template <typename Arch>
struct VectorKernels {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t lanes = Batch::size;

  static Batch load(const float* at) { return Batch::load_unaligned(at); }

  /// The first `count` lanes from memory, `filler` in the others.
  static Batch load_part(const float* at, std::size_t count, float filler) {
    alignas(64) float buffer[lanes];
    for (std::size_t i = 0; i < lanes; ++i) buffer[i] = i < count ? at[i] : filler;
    return Batch::load_aligned(buffer);
  }

  static void store_part(const Batch& values, float* at, std::size_t count) {
    alignas(64) float buffer[lanes];
    values.store_aligned(buffer);
    for (std::size_t i = 0; i < count; ++i) at[i] = buffer[i];
  }

  static double sum(const Batch& values) {
    alignas(64) float buffer[lanes];
    values.store_aligned(buffer);
    double total = 0;
    for (std::size_t i = 0; i < lanes; ++i) total += static_cast<double>(buffer[i]);
    return total;
  }

  static float largest(const Batch& values) {
    alignas(64) float buffer[lanes];
    values.store_aligned(buffer);
    float most = buffer[0];
    for (std::size_t i = 1; i < lanes; ++i) most = buffer[i] > most ? buffer[i] : most;
    return most;
  }

  /// out[i] = f(in[i]); in and out may be the same.
  template <typename F>
  static void map(const float* in, float* out, std::size_t n, const F& f) {
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) f(load(in + i)).store_unaligned(out + i);
    if (i < n) store_part(f(load_part(in + i, n - i, 0)), out + i, n - i);
  }

  /// out[i] = f(out[i], x[i]).
  template <typename F>
  static void combine(const float* x, float* out, std::size_t n, const F& f) {
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) f(load(out + i), load(x + i)).store_unaligned(out + i);
    if (i < n) store_part(f(load_part(out + i, n - i, 0), load_part(x + i, n - i, 0)), out + i, n - i);
  }

  /// Products with one factor that is not rounded to float first: its rounding would be an error that all
  /// products share, and a shared relative error of the scores moves every weight of a sharp head.
  struct Factor {
    explicit Factor(double factor)
        : high(static_cast<float>(factor)),
          low(static_cast<float>(factor - static_cast<double>(static_cast<float>(factor)))) {}
    Batch operator()(const Batch& v) const { return xsimd::fma(v, high, v * low); }
    Batch high, low;
  };

  static void scale(double factor, std::span<float> x) {
    const Factor product(factor);
    map(x.data(), x.data(), x.size(), product);
  }

  /// Sum of f(x[i]) over all i; f(filler) is 0.
  template <typename F>
  static double sum_of(const float* x, std::size_t n, float filler, const F& f) {
    double total = 0;
    for (std::size_t begin = 0; begin < n; begin += sum_block) {
      const std::size_t end = n - begin < sum_block ? n : begin + sum_block;
      Batch part(0.0F);
      std::size_t i = begin;
      for (; i + lanes <= end; i += lanes) part += f(load(x + i));
      if (i < end) part += f(load_part(x + i, end - i, filler));
      total += sum(part);
    }
    return total;
  }

  /// The largest of the numbers; a NaN is passed over. -inf where there is none.
  static float largest_of(const float* x, std::size_t n) {
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    Batch most[4] = {Batch(lowest), Batch(lowest), Batch(lowest), Batch(lowest)};
    std::size_t i = 0;
    const auto take = [](Batch& least, const Batch& values) {
      least = xsimd::select(values > least, values, least);
    };
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      for (std::size_t part = 0; part < 4; ++part) take(most[part], load(x + i + part * lanes));
    }
    for (; i + lanes <= n; i += lanes) take(most[0], load(x + i));
    if (i < n) take(most[0], load_part(x + i, n - i, lowest));
    for (std::size_t part = 1; part < 4; ++part) take(most[0], most[part]);
    return largest(most[0]);
  }

  static bool softmax(std::span<const float> scores, std::span<float> pattern) {
    const float* const in = scores.data();
    float* const out = pattern.data();
    const std::size_t n = scores.size();
    const float most = largest_of(in, n);
    if (most == -std::numeric_limits<float>::infinity()) return softmax_of_nothing(in, out, n);
    double total = 0;
    const Batch shift(most);
    for (std::size_t begin = 0; begin < n; begin += sum_block) {
      const std::size_t end = n - begin < sum_block ? n : begin + sum_block;
      Batch part(0.0F);
      std::size_t i = begin;
      for (; i + lanes <= end; i += lanes) {
        const Batch weight = xsimd::exp(load(in + i) - shift);
        weight.store_unaligned(out + i);
        part += weight;
      }
      if (i < end) {
        const Batch weight =
            xsimd::exp(load_part(in + i, end - i, -std::numeric_limits<float>::infinity()) - shift);
        store_part(weight, out + i, end - i);
        part += weight;
      }
      total += sum(part);
    }
    map(out, out, n, Factor(1.0 / total));
    return true;
  }

  /// A row without a score above -inf: zeros, unless it holds a NaN.
  static bool softmax_of_nothing(const float* in, float* out, std::size_t n) {
    bool has_nan = false;
    for (std::size_t i = 0; i < n; ++i) has_nan = has_nan || in[i] != in[i];
    const float fill = has_nan ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    for (std::size_t i = 0; i < n; ++i) out[i] = fill;
    return has_nan;
  }

  /// Corrected two-pass moments: what the rounding of the mean leaves is taken off again, so that a row of
  /// equal values has a deviation of 0 and not of its rounding error over sqrt(eps).
  static void layer_norm(std::span<const float> x, std::span<const float> gain, std::span<const float> bias,
                         float eps, std::span<float> out) {
    const std::size_t n = x.size();
    const float* const in = x.data();
    const auto count = static_cast<double>(n);
    const double sum_x = sum_of(in, n, 0, [](const Batch& v) { return v; });
    const auto mean = static_cast<float>(sum_x / count);
    const Batch shift(mean);
    const double rest = sum_of(in, n, mean, [&](const Batch& v) { return v - shift; }) / count;
    const double square = sum_of(in, n, mean, [&](const Batch& v) { return (v - shift) * (v - shift); });
    const double variance = square / count - rest * rest;
    const double deviation = __builtin_sqrt((variance > 0 ? variance : variance * 0) + double{eps});
    const Batch correction(static_cast<float>(rest));
    const Factor scaled(1.0 / deviation);
    map(in, out.data(), n, [&](const Batch& v) { return scaled(v - shift - correction); });
    if (!gain.empty()) multiply(gain, out);
    if (!bias.empty()) add(bias, out);
  }

  static void rms_norm(std::span<const float> x, std::span<const float> gain, float eps,
                       std::span<float> out) {
    const std::size_t n = x.size();
    const double square = sum_of(x.data(), n, 0, [](const Batch& v) { return v * v; });
    const double root = __builtin_sqrt(square / static_cast<double>(n) + double{eps});
    map(x.data(), out.data(), n, Factor(1.0 / root));
    if (!gain.empty()) multiply(gain, out);
  }

  static void add(std::span<const float> x, std::span<float> out) {
    combine(x.data(), out.data(), x.size(), [](const Batch& a, const Batch& b) { return a + b; });
  }

  static void multiply(std::span<const float> x, std::span<float> out) {
    combine(x.data(), out.data(), x.size(), [](const Batch& a, const Batch& b) { return a * b; });
  }

  static void gelu_erf(std::span<float> x) {
    const Batch half(0.5F), one(1.0F), root(0.70710678118654752F);
    map(x.data(), x.data(), x.size(),
        [&](const Batch& v) { return half * v * (one + xsimd::erf(v * root)); });
  }

  static void gelu_tanh(std::span<float> x) {
    const Batch half(0.5F), one(1.0F), root(0.79788456080286536F), cubic(0.044715F);
    map(x.data(), x.data(), x.size(),
        [&](const Batch& v) { return half * v * (one + xsimd::tanh(root * (v + cubic * v * v * v))); });
  }

  static void silu(std::span<float> x) {
    const Batch one(1.0F);
    map(x.data(), x.data(), x.size(), [&](const Batch& v) { return v / (one + xsimd::exp(-v)); });
  }

  static void relu(std::span<float> x) {
    const Batch zero(0.0F);
    map(x.data(), x.data(), x.size(), [&](const Batch& v) { return xsimd::select(v < zero, zero, v); });
  }

  static void relu_squared(std::span<float> x) {
    const Batch zero(0.0F);
    map(x.data(), x.data(), x.size(), [&](const Batch& v) { return xsimd::select(v < zero, zero, v * v); });
  }

  static void tanh(std::span<float> x) {
    map(x.data(), x.data(), x.size(), [](const Batch& v) { return xsimd::tanh(v); });
  }

  static double sum_x_log_x(std::span<const float> x) {
    const Batch zero(0.0F);
    return sum_of(x.data(), x.size(), 0,
                  [&](const Batch& v) { return xsimd::select(v <= zero, zero, v * xsimd::log(v)); });
  }

  static constexpr Kernels table(std::string_view name) {
    return {name,     softmax,   layer_norm, rms_norm, add,          multiply, scale,
            gelu_erf, gelu_tanh, silu,       relu,     relu_squared, tanh,     sum_x_log_x};
  }
};

}  // namespace
}  // namespace attnctl::linalg
