#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>

namespace attnctl {

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
