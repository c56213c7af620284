#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

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

}  // namespace attnctl
