#pragma once

#include <bit>
#include <cstdint>

namespace attnctl {

/// Converts IEEE half to float exactly, including subnormals and NaN payloads. Has no branches, so that the
/// compiler vectorises loops. A subnormal half is a normal float: its fraction is combined with the exponent
/// of 2^-14, then 2^-14 is subtracted, which is exact. Always inlined, because the vector kernels are
/// compiled for several instruction sets.
[[nodiscard, gnu::always_inline]] constexpr inline float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7FFFU;
  const std::uint32_t shifted = magnitude << 13;
  const auto subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + (113U << 23)) - 0x1p-14F);
  const std::uint32_t normal = shifted + (112U << 23);
  const std::uint32_t is_subnormal = 0U - static_cast<std::uint32_t>(magnitude < 0x0400U);
  const std::uint32_t special = (0U - static_cast<std::uint32_t>(magnitude >= 0x7C00U)) & 0x7F800000U;
  return std::bit_cast<float>(sign | (subnormal & is_subnormal) | (normal & ~is_subnormal) | special);
}

}  // namespace attnctl
