#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

namespace attnctl {

/// checked_add() and checked_mul() return nullopt if the result does not fit into T.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// saturating_sum() and saturating_product() return the largest value of T if the result does not fit.
template <std::unsigned_integral T, std::convertible_to<T>... More>
[[nodiscard]] constexpr T saturating_sum(T a, More... more) {
  ((a = checked_add(a, static_cast<T>(more)).value_or(std::numeric_limits<T>::max())), ...);
  return a;
}
template <std::unsigned_integral T>
[[nodiscard]] constexpr T saturating_product(T a, T b) {
  return checked_mul(a, b).value_or(std::numeric_limits<T>::max());
}

/// Returns the product of the extents and `size`, the size of an element, which must be at least 1. Extents
/// of 0 do not hide an overflow: returns nullopt if the product of the other extents and `size` overflows.
[[nodiscard]] constexpr std::optional<std::size_t> checked_product(std::span<const std::size_t> extents,
                                                                   std::size_t size = 1) {
  std::size_t product = size;
  for (const std::size_t extent : extents) {
    const auto next = checked_mul(product, std::max<std::size_t>(extent, 1));
    if (!next) return std::nullopt;
    product = *next;
  }
  return std::ranges::find(extents, std::size_t{0}) == extents.end() ? product : 0;
}

}  // namespace attnctl
