#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <stdexcept>

namespace attnctl {

/// The bits of a float NaN that marks an undefined number, for example the mean of an empty list. The payload
/// bits differ from those of the NaN that arithmetic produces. kUndefined is the same NaN as a double, and
/// its conversion to float gives this NaN.
inline constexpr std::uint32_t kUndefinedFloatBits = 0x7FC0'4E41;  // the last two bytes are "NA" in ASCII
inline constexpr double kUndefined = std::bit_cast<double>(
    std::uint64_t{0x7FF} << 52U | std::uint64_t{kUndefinedFloatBits & 0x7F'FFFFU} << 29U);

inline bool is_undefined(float value) {
  // The shift removes the sign bit.
  return std::bit_cast<std::uint32_t>(value) << 1U == kUndefinedFloatBits << 1U;
}
inline bool is_undefined(double value) {
  return std::bit_cast<std::uint64_t>(value) << 1U == std::bit_cast<std::uint64_t>(kUndefined) << 1U;
}

/// Returns true for NaN and infinities, except for the NaN that marks an undefined number.
template <typename T>
bool is_non_finite(T value) {
  return !std::isfinite(value) && !is_undefined(value);
}

/// A sum that does not depend on the order of its terms, so that threads, shards and restarts cannot change
/// the result. It is a 128-bit fixed-point number with 64 fractional bits. Each term is rounded to a multiple
/// of 2^-64.
class ExactSum {
 public:
  /// Throws std::domain_error unless |term| < 2^62, and std::overflow_error if the sum does not fit.
  void add(double term) {
    if (!(std::abs(term) < 0x1p62))
      throw std::domain_error("a term of an exact sum is NaN, or not below 2^62 in magnitude");
    // Splits the term into three parts, because the CPU can convert a double only to a 64-bit integer. Only
    // the last part is rounded.
    const auto whole = static_cast<std::int64_t>(term);
    const double fraction = (term - static_cast<double>(whole)) * 0x1p32;
    const auto upper = static_cast<std::int64_t>(fraction);
    const double rest = (fraction - static_cast<double>(upper)) * 0x1p32;
    const auto lower = static_cast<std::int64_t>(std::nearbyint(rest));
    ExactSum scaled;
    scaled.total_ = (Fixed{whole} << 64) + (Fixed{upper} << 32) + lower;
    merge(scaled);
  }

  /// Adds another sum. Throws std::overflow_error if the result does not fit; then this sum is unchanged.
  void merge(const ExactSum& other) {
    Fixed total = 0;
    if (__builtin_add_overflow(total_, other.total_, &total))
      throw std::overflow_error("an exact sum is over 2^63 in magnitude");
    total_ = total;
  }

  [[nodiscard]] double value() const { return static_cast<double>(total_) * 0x1p-64; }

  /// Returns the 128 bits as two words, low half first, to be stored in a file.
  [[nodiscard]] std::array<std::uint64_t, 2> words() const {
    return std::bit_cast<std::array<std::uint64_t, 2>>(total_);
  }

  [[nodiscard]] static ExactSum from_words(std::array<std::uint64_t, 2> words) {
    ExactSum sum;
    sum.total_ = std::bit_cast<Fixed>(words);
    return sum;
  }

 private:
  __extension__ using Fixed = __int128;
  Fixed total_ = 0;
};

/// The random number generator xoshiro256++ (Blackman and Vigna 2021), whose state SplitMix64 computes from
/// the seed. next() and uniform() return the same numbers on every machine. Each `stream` of a seed is a
/// different sequence, for example one per task.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t x = seed + 0x9E3779B97F4A7C15U * (stream + 1);
    for (std::uint64_t& word : state_) {
      x += 0x9E3779B97F4A7C15U;
      std::uint64_t z = x;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// Returns a uniform number in [0, 1) with 53 random bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Returns a normally distributed number with mean 0 and variance 1 (Box and Muller 1958). The last bits
  /// depend on log, sin and cos of the C library.
  double normal() {
    if (spare_) {
      const double value = *spare_;
      spare_.reset();
      return value;
    }
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    return radius * std::cos(angle);
  }

 private:
  static std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  std::uint64_t state_[4]{};
  std::optional<double> spare_;
};

}  // namespace attnctl
