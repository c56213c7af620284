#include "tokenizer/models/score.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace attnctl {
namespace {

constexpr std::int64_t kLargestPower = 308;

/// 1e0 to 1e308, each the nearest double.
std::array<double, kLargestPower + 1> make_powers() {
  std::array<double, kLargestPower + 1> powers{};
  for (std::size_t i = 0; i < powers.size(); ++i) {
    const std::string text = fmt::format("1e{}", i);
    std::from_chars(text.data(), text.data() + text.size(), powers[i]);
  }
  return powers;
}

double scaled(std::uint64_t significand, std::int64_t exponent) {
  static const auto powers = make_powers();
  auto value = static_cast<double>(significand);
  while (exponent < -kLargestPower && value != 0) {
    value /= powers[kLargestPower];
    exponent += kLargestPower;
  }
  if (value == 0) return 0;
  if (exponent > kLargestPower) return std::numeric_limits<double>::infinity();
  return exponent < 0 ? value / powers[static_cast<std::size_t>(-exponent)]
                      : value * powers[static_cast<std::size_t>(exponent)];
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

double read_score(std::string_view digits) {
  constexpr std::int64_t kFarExponent = 1 << 30;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  std::uint64_t significand = 0;
  std::int64_t exponent = 0;
  bool in_fraction = false;
  bool is_full = false;  // further digits count as zeros
  std::size_t i = 0;
  for (; i < digits.size() && (is_digit(digits[i]) || digits[i] == '.'); ++i) {
    if (digits[i] == '.') {
      in_fraction = true;
      is_full = false;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(digits[i] - '0');
    is_full = is_full || significand > (std::numeric_limits<std::uint64_t>::max() - digit) / 10;
    if (!is_full) significand = significand * 10 + digit;
    if (is_full != in_fraction) exponent += is_full ? 1 : -1;
  }
  if (i < digits.size()) {  // e or E
    ++i;
    const bool down = digits[i] == '-';
    if (!is_digit(digits[i])) ++i;
    std::int64_t power = 0;
    for (; i < digits.size(); ++i) power = std::min(power * 10 + (digits[i] - '0'), kFarExponent);
    exponent += down ? -power : power;
  }
  const double value = scaled(significand, exponent);
  return negative ? -value : value;
}

}  // namespace attnctl
