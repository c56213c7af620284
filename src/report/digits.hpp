#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace attnctl {

/// The eight decimal digits of upper 10^4 + lower, both below 10^4, a byte each, the highest in the lowest
/// byte: on a little-endian machine the order in which they are written. Pairs and single digits are split at
/// once in the lanes of one word; x 10486 >> 20 is x / 100 below 10^4, x 103 >> 10 is x / 10 below 100.
[[nodiscard]] constexpr std::uint64_t eight_digits(std::uint64_t upper, std::uint64_t lower) {
  constexpr std::uint64_t hundreds = 0x0000007F0000007F;
  constexpr std::uint64_t tens = 0x000F000F000F000F;
  const std::uint64_t fours = upper + (lower << 32U);
  const std::uint64_t upper_pairs = (fours * 10486 >> 20U) & hundreds;
  const std::uint64_t pairs = upper_pairs + ((fours - upper_pairs * 100) << 16U);
  const std::uint64_t upper_digits = (pairs * 103 >> 10U) & tens;
  return upper_digits + ((pairs - upper_digits * 10) << 8U);
}

inline constexpr std::uint64_t ascii_zeros = 0x3030303030303030;

/// Writes eight characters.
inline void put_eight(char* to, std::uint64_t characters) {
  static_assert(std::endian::native == std::endian::little, "the lowest byte is written first");
  std::memcpy(to, &characters, sizeof characters);
}

}  // namespace attnctl
