#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace attnctl {

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
    const auto bits = static_cast<Bits>(total_);
    return {static_cast<std::uint64_t>(bits), static_cast<std::uint64_t>(bits >> 64U)};
  }

  [[nodiscard]] static ExactSum from_words(std::array<std::uint64_t, 2> words) {
    ExactSum sum;
    sum.total_ = static_cast<Fixed>(static_cast<Bits>(words[1]) << 64U | words[0]);
    return sum;
  }

 private:
  __extension__ using Fixed = __int128;
  __extension__ using Bits = unsigned __int128;
  Fixed total_ = 0;
};

}  // namespace attnctl
