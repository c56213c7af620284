#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include <xsimd/xsimd.hpp>

#include "linalg/kernels/decoders.hpp"
#include "linalg/kernels/kernels.hpp"
#include "linalg/kernels/vector_math.hpp"

// The Kernels of kernels.hpp for one instruction set. One source file per instruction set includes this
// header. All functions are in an unnamed namespace and, of the standard library, call only members of
// std::span and std::numeric_limits, which are inlined. For any other inline function, the whole
// program could get the copy that is compiled here, with instructions that other CPUs do not support.

namespace attnctl::linalg {
namespace {

/// Elements are added in float in blocks of this size. The sums of the blocks are added in double.
constexpr std::size_t kSumBlock = 1024;

template <typename Arch>
struct VectorKernels {
  using Batch = xsimd::batch<float, Arch>;
  using Simd = Lanes<Arch>;
  using Math = VectorMath<Arch>;
  static constexpr std::size_t kLanes = Batch::size;

  static Batch load(const float* at) { return Batch::load_unaligned(at); }

  /// Computes out[i] = f(in[i]). `in` and `out` may be the same memory.
  template <typename F>
  static void map(const float* in, float* out, std::size_t n, const F& f) {
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) f(load(in + i)).store_unaligned(out + i);
    if (i < n) Simd::store_part(f(Simd::load_part(in + i, n - i, 0)), out + i, n - i);
  }

  /// Computes out[i] = f(out[i], x[i]).
  template <typename F>
  static void combine(const float* x, float* out, std::size_t n, const F& f) {
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) f(load(out + i), load(x + i)).store_unaligned(out + i);
    if (i < n)
      Simd::store_part(f(Simd::load_part(out + i, n - i, 0), Simd::load_part(x + i, n - i, 0)), out + i,
                       n - i);
  }

  /// A double factor, stored as the sum of two floats. One float would change all attention scores by the
  /// same relative error, which changes the pattern of a head with large scores.
  struct Factor {
    explicit Factor(double factor)
        : high(static_cast<float>(factor)),
          low(static_cast<float>(factor - static_cast<double>(static_cast<float>(factor)))) {}
    Batch operator()(const Batch& v) const { return Simd::fma(v, high, v * low); }
    Batch high, low;
  };

  static void scale(double factor, std::span<float> x) {
    const Factor product(factor);
    map(x.data(), x.data(), x.size(), product);
  }

  /// Independent partial sums in float, which the processor can add at the same time.
  struct PartialSums {
    static constexpr std::size_t kCount = 4;
    Batch part[kCount] = {Batch(0.0F), Batch(0.0F), Batch(0.0F), Batch(0.0F)};
    [[nodiscard]] double total() const { return Simd::sum((part[0] + part[1]) + (part[2] + part[3])); }
  };

  /// Calls take(values, s) for each vector of x[begin, end), where s is the index of the partial sum to use.
  /// Lanes for elements after `end` hold `filler`.
  template <typename F>
  static void each(const float* x, std::size_t begin, std::size_t end, float filler, const F& take) {
    std::size_t i = begin;
    for (; i + PartialSums::kCount * kLanes <= end; i += PartialSums::kCount * kLanes) {
      for (std::size_t part = 0; part < PartialSums::kCount; ++part) take(load(x + i + part * kLanes), part);
    }
    for (; i + kLanes <= end; i += kLanes) take(load(x + i), 0);
    if (i < end) take(Simd::load_part(x + i, end - i, filler), 0);
  }

  static std::size_t end_of_block(std::size_t begin, std::size_t n) {
    return n - begin < kSumBlock ? n : begin + kSumBlock;
  }

  /// Returns the sum of a function of x[i]. add(sum, values) adds the values of the function for a vector to
  /// a partial sum. Lanes after the last element are `filler` and must add 0.
  template <typename F>
  static double sum_of(const float* x, std::size_t n, float filler, const F& add) {
    double total = 0;
    for (std::size_t begin = 0; begin < n; begin += kSumBlock) {
      PartialSums sums;
      each(x, begin, end_of_block(begin, n), filler,
           [&](const Batch& v, std::size_t part) { sums.part[part] = add(sums.part[part], v); });
      total += sums.total();
    }
    return total;
  }

  /// Returns the sum of a function of x[i] and y[i], added in the same order as in the other overload.
  /// add(sum, xs, ys) adds the values of the function for two vectors to a partial sum. Lanes after the last
  /// element are 0 in both vectors and must add 0.
  template <typename F>
  static double sum_of(const float* x, const float* y, std::size_t n, const F& add) {
    double total = 0;
    for (std::size_t begin = 0; begin < n; begin += kSumBlock) {
      const std::size_t end = end_of_block(begin, n);
      PartialSums sums;
      std::size_t i = begin;
      for (; i + PartialSums::kCount * kLanes <= end; i += PartialSums::kCount * kLanes) {
        for (std::size_t part = 0; part < PartialSums::kCount; ++part) {
          const std::size_t at = i + part * kLanes;
          sums.part[part] = add(sums.part[part], load(x + at), load(y + at));
        }
      }
      for (; i + kLanes <= end; i += kLanes) sums.part[0] = add(sums.part[0], load(x + i), load(y + i));
      if (i < end)
        sums.part[0] =
            add(sums.part[0], Simd::load_part(x + i, end - i, 0), Simd::load_part(y + i, end - i, 0));
      total += sums.total();
    }
    return total;
  }

  /// Returns the largest element of x, ignoring NaN; -inf if there is none.
  static float max_of(const float* x, std::size_t n) {
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    Batch largest[PartialSums::kCount] = {Batch(lowest), Batch(lowest), Batch(lowest), Batch(lowest)};
    const auto larger = [](const Batch& a, const Batch& b) { return xsimd::select(b > a, b, a); };
    each(x, 0, n, lowest,
         [&](const Batch& v, std::size_t part) { largest[part] = larger(largest[part], v); });
    return Simd::largest(larger(larger(largest[0], largest[1]), larger(largest[2], largest[3])));
  }

  static bool softmax(std::span<const float> scores, std::span<float> pattern) {
    const float* const in = scores.data();
    float* const out = pattern.data();
    const std::size_t n = scores.size();
    const float largest = max_of(in, n);
    if (largest == -std::numeric_limits<float>::infinity()) return softmax_of_masked_row(in, out, n);
    double total = 0;
    const Batch shift(largest);
    const std::size_t whole = n - n % kLanes;
    for (std::size_t begin = 0; begin < whole; begin += kSumBlock) {
      Batch part(0.0F);
      for (std::size_t i = begin; i < end_of_block(begin, whole); i += kLanes) {
        const Batch weight = Math::exp_of_negative(load(in + i) - shift);
        weight.store_unaligned(out + i);
        part += weight;
      }
      total += Simd::sum(part);
    }
    Batch last(0.0F);  // kept in a register, because reading memory after a masked store is slow
    if (whole < n) {
      const Batch scores_left =
          Simd::load_part(in + whole, n - whole, -std::numeric_limits<float>::infinity());
      last = Math::exp_of_negative(scores_left - shift);
      total += Simd::sum(last);
    }
    const Factor factor(1.0 / total);
    map(out, out, whole, factor);
    if (whole < n) Simd::store_part(factor(last), out + whole, n - whole);
    return true;
  }

  /// Computes softmax of a row in which no score is above -inf: NaN if a score is NaN, otherwise zeros.
  /// Returns true if a score is NaN.
  static bool softmax_of_masked_row(const float* in, float* out, std::size_t n) {
    bool has_nan = false;
    for (std::size_t i = 0; i < n; ++i) has_nan = has_nan || in[i] != in[i];
    const float fill = has_nan ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    for (std::size_t i = 0; i < n; ++i) out[i] = fill;
    return has_nan;
  }

  /// Subtracts the mean in two parts: first the rounded mean, then the mean of the deviations from it, which
  /// is its rounding error. Thus a row of equal values gives exactly 0 before gain and bias.
  static void layer_norm(std::span<const float> x, std::span<const float> gain, std::span<const float> bias,
                         float eps, std::span<float> out) {
    const std::size_t n = x.size();
    const auto count = static_cast<double>(n);
    const double sum_x = sum(x);
    const auto mean = static_cast<float>(sum_x / count);
    const DeviationSums about = moments(x.data(), n, mean);
    const double rest = about.sum / count;
    const double variance = about.squares / count - rest * rest;
    const double deviation = __builtin_sqrt((variance > 0 ? variance : variance * 0) + double{eps});
    const Batch shift(mean);
    const Batch correction(static_cast<float>(rest));
    const Factor scaled(1.0 / deviation);
    normed(x, gain, bias, out, [&](const Batch& v) { return scaled(v - shift - correction); });
  }

  static void rms_norm(std::span<const float> x, std::span<const float> gain, float eps,
                       std::span<float> out) {
    const double square =
        sum_of(x.data(), x.size(), 0, [](const Batch& sum, const Batch& v) { return Simd::fma(v, v, sum); });
    const double root = __builtin_sqrt(square / static_cast<double>(x.size()) + double{eps});
    normed(x, gain, {}, out, Factor(1.0 / root));
  }

  struct DeviationSums {
    double sum = 0;
    double squares = 0;
  };

  /// Returns the sum of x[i] - about, and the sum of (x[i] - about)^2.
  static DeviationSums moments(const float* x, std::size_t n, float about) {
    DeviationSums total;
    const Batch shift(about);
    for (std::size_t begin = 0; begin < n; begin += kSumBlock) {
      PartialSums sums;
      PartialSums squares;
      each(x, begin, end_of_block(begin, n), about, [&](const Batch& v, std::size_t part) {
        const Batch from = v - shift;
        sums.part[part] += from;
        squares.part[part] = Simd::fma(from, from, squares.part[part]);
      });
      total.sum += sums.total();
      total.squares += squares.total();
    }
    return total;
  }

  /// Computes out = f(x) * gain + bias. An empty gain counts as 1, an empty bias as 0.
  template <typename F>
  static void normed(std::span<const float> x, std::span<const float> gain, std::span<const float> bias,
                     std::span<float> out, const F& f) {
    const std::size_t n = x.size();
    if (gain.empty()) {
      map(x.data(), out.data(), n, f);
      if (!bias.empty()) add(bias, out);
      return;
    }
    const auto store = [&](std::size_t i, const auto& from, const auto& to) {
      const Batch scaled = f(from(x.data() + i)) * from(gain.data() + i);
      to(bias.empty() ? scaled : scaled + from(bias.data() + i), out.data() + i);
    };
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      store(i, load, [](const Batch& v, float* at) { v.store_unaligned(at); });
    }
    if (i == n) return;
    store(
        i, [&](const float* at) { return Simd::load_part(at, n - i, 0); },
        [&](const Batch& v, float* at) { Simd::store_part(v, at, n - i); });
  }

  static void add(std::span<const float> x, std::span<float> out) {
    combine(x.data(), out.data(), x.size(), [](const Batch& a, const Batch& b) { return a + b; });
  }

  static void multiply(std::span<const float> x, std::span<float> out) {
    combine(x.data(), out.data(), x.size(), [](const Batch& a, const Batch& b) { return a * b; });
  }

  template <Batch (*f)(const Batch&)>
  static void activate(std::span<float> x) {
    map(x.data(), x.data(), x.size(), [](const Batch& v) { return f(v); });
  }

  static void relu(std::span<float> x) {
    const Batch zero(0.0F);
    map(x.data(), x.data(), x.size(), [&](const Batch& v) { return xsimd::select(v < zero, zero, v); });
  }

  static void relu_squared(std::span<float> x) {
    const Batch zero(0.0F);
    map(x.data(), x.data(), x.size(), [&](const Batch& v) { return xsimd::select(v < zero, zero, v * v); });
  }

  static constexpr double kLn2 = 0.69314718055994531;

  static double sum_x_log_x(std::span<const float> x) {
    return kLn2 * sum_of(x.data(), x.size(), 0,
                         [](const Batch& sum, const Batch& v) { return Simd::fma(v, Math::log2(v), sum); });
  }

  static double sum_x_log_x_of_sum(std::span<const float> a, std::span<const float> b) {
    return kLn2 * sum_of(a.data(), b.data(), a.size(), [](const Batch& sum, const Batch& x, const Batch& y) {
             const Batch v = x + y;
             return Simd::fma(v, Math::log2(v), sum);
           });
  }

  static WeightMoments weight_moments(std::span<const float> weights, std::ptrdiff_t offset) {
    alignas(64) float numbers[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) numbers[i] = static_cast<float>(i);
    const Batch ramp = Batch::load_aligned(numbers);
    const Batch zero(0.0F);
    constexpr std::size_t block = 64 * kLanes;  // at most 64 terms per lane are added in float
    WeightMoments moments;
    Batch top = zero;
    for (std::size_t begin = 0; begin < weights.size(); begin += block) {
      const std::size_t left = weights.size() - begin;
      Batch total = zero;
      Batch distance = zero;
      Batch signed_distance = zero;
      Batch position = ramp + Batch(static_cast<float>(offset + static_cast<std::ptrdiff_t>(begin)));
      each(weights.data(), begin, left < block ? begin + left : begin + block, 0,
           [&](const Batch& v, std::size_t /*part*/) {
             total += v;
             distance = Simd::fma(v, xsimd::abs(position), distance);
             signed_distance = Simd::fma(v, position, signed_distance);
             top = xsimd::max(top, v);
             position += Batch(static_cast<float>(kLanes));
           });
      moments.total += Simd::sum(total);
      moments.distance += Simd::sum(distance);
      moments.signed_distance += Simd::sum(signed_distance);
    }
    moments.largest = Simd::largest(top);
    return moments;
  }

  static double sum(std::span<const float> x) {
    return sum_of(x.data(), x.size(), 0, [](const Batch& total, const Batch& v) { return total + v; });
  }

  static ExpSum exp_sum(std::span<const float> x) {
    const float largest = max_of(x.data(), x.size());
    const Batch shift(largest);
    return {largest, sum_of(x.data(), x.size(), -std::numeric_limits<float>::infinity(),
                            [&](const Batch& total, const Batch& v) {
                              return total + Math::exp_of_negative(v - shift);
                            })};
  }

  static double weighted_difference(std::span<const float> w, std::span<const float> a,
                                    std::span<const float> b) {
    double total = 0;
    for (std::size_t begin = 0; begin < w.size(); begin += kSumBlock) {
      const std::size_t end = end_of_block(begin, w.size());
      Batch part(0.0F);
      std::size_t i = begin;
      for (; i + kLanes <= end; i += kLanes)
        part = Simd::fma(load(w.data() + i), load(a.data() + i) - load(b.data() + i), part);
      if (i < end) {
        const auto rest = [&](std::span<const float> of) {
          return Simd::load_part(of.data() + i, end - i, 0);
        };
        part = Simd::fma(rest(w), rest(a) - rest(b), part);
      }
      total += Simd::sum(part);
    }
    return total;
  }

  static bool all_finite(std::span<const float> x) {
    // A lane is NaN if one of its elements is not finite, otherwise 0.
    Batch all[PartialSums::kCount] = {Batch(0.0F), Batch(0.0F), Batch(0.0F), Batch(0.0F)};
    each(x.data(), 0, x.size(), 0, [&](const Batch& v, std::size_t part) {
      all[part] += v - v;  // NOLINT(misc-redundant-expression): NaN if v is not finite
    });
    return xsimd::all((all[0] + all[1]) + (all[2] + all[3]) == Batch(0.0F));
  }

  static constexpr Kernels table(std::string_view name) {
    return {name,
            softmax,
            layer_norm,
            rms_norm,
            add,
            multiply,
            scale,
            activate<Math::gelu_erf>,
            activate<Math::gelu_tanh>,
            activate<Math::silu>,
            relu,
            relu_squared,
            activate<Math::tanh>,
            sum_x_log_x,
            sum_x_log_x_of_sum,
            weight_moments,
            sum,
            exp_sum,
            weighted_difference,
            all_finite,
            decoder_table()};
  }
};

}  // namespace
}  // namespace attnctl::linalg
