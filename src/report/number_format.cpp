#include "report/number_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "report/shortest_float.hpp"

namespace attnctl {
namespace {

constexpr std::array<double, 10> powers_of_ten{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};

char* write_shortest_other(char* to, double value) {
  return std::to_chars(to, to + NumberFormat::most_characters, value).ptr;
}

char* write_shortest_other(char* to, float value) {
  return write_shortest_float(to, value);
}

template <typename T>
char* write_shortest(char* to, T value) {
  if (value != 0) return write_shortest_other(to, value);
  if (!std::signbit(value)) {
    *to = '0';
    return to + 1;
  }
  return std::ranges::copy(std::string_view("-0.0"), to).out;  // many readers parse "-0" as the integer 0
}

template <typename T>
char* write_fixed(char* to, T value, int digits) {
  return std::to_chars(to, to + NumberFormat::most_characters, value, std::chars_format::fixed, digits).ptr;
}

/// Writes `count` digits of a number below 10^count with leading zeros. May overwrite eight more characters.
char* write_padded(char* to, std::uint64_t number, std::size_t count) {
  constexpr std::uint64_t block = 100000000;
  if (count > 8) {
    to = write_padded(to, number / block, count - 8);
    number %= block;
    count = 8;
  }
  const std::uint64_t digits = eight_digits(number / 10000, number % 10000) + kAsciiZeros;
  put_eight(to, digits >> (64 - 8 * count));
  return to + count;
}

/// Rounds to the nearest integer, ties to even. Adding 2^52 removes the fraction of a number below 2^51.
double rounded(double size) {
  constexpr double no_fraction = 4503599627370496;
  return size < no_fraction / 2 ? (size + no_fraction) - no_fraction : std::nearbyint(size);
}

/// Writes a float with fixed decimals through one integer, several times faster than std::to_chars. The
/// result is exact: 24 bits of the float times at most 22 bits of 5^9 fit a double, so only the last decimal
/// is rounded.
char* write_scaled(char* to, float value, std::size_t digits) {
  const double power = powers_of_ten[digits];
  const auto scaled = static_cast<std::uint64_t>(rounded(std::abs(static_cast<double>(value)) * power));
  const auto one = static_cast<std::uint64_t>(power);
  const std::uint64_t whole = scaled < one ? 0 : scaled / one;
  *to = '-';
  to += std::signbit(value) ? 1 : 0;
  to = std::to_chars(to, to + NumberFormat::most_characters - 1, whole).ptr;
  if (digits == 0) return to;
  *to = '.';
  return write_padded(to + 1, scaled - whole * one, digits);
}

}  // namespace

char* NumberFormat::write(char* to, float value) const {
  if (!digits) return write_shortest(to, value);
  constexpr float fits = 1e8F;  // times 10^9 it is below 2^63
  if (*digits < static_cast<int>(powers_of_ten.size()) && std::abs(value) < fits) {
    return write_scaled(to, value, static_cast<std::size_t>(*digits));
  }
  return write_fixed(to, value, *digits);
}

char* NumberFormat::write(char* to, double value) const {
  return digits ? write_fixed(to, value, *digits) : write_shortest(to, value);
}

char* NumberFormat::write(char* to, std::int64_t value) {
  return std::to_chars(to, to + most_characters, value).ptr;
}

}  // namespace attnctl
