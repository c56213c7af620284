#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "report/writers.hpp"

namespace attnctl::report {
namespace {

/// Returns the eight decimal digits of upper * 10^4 + lower, where both are below 10^4. Each byte of the
/// result is one digit; the first digit is in the lowest byte. The digits are computed in parallel in the
/// lanes of one 64-bit word: x * 10486 >> 20 is x / 100 for x < 10^4, and x * 103 >> 10 is x / 10 for x <
/// 100.
constexpr std::uint64_t eight_digits(std::uint64_t upper, std::uint64_t lower) {
  constexpr std::uint64_t hundreds = 0x0000007F0000007F;
  constexpr std::uint64_t tens = 0x000F000F000F000F;
  const std::uint64_t fours = upper + (lower << 32U);
  const std::uint64_t upper_pairs = (fours * 10486 >> 20U) & hundreds;
  const std::uint64_t pairs = upper_pairs + ((fours - upper_pairs * 100) << 16U);
  const std::uint64_t upper_digits = (pairs * 103 >> 10U) & tens;
  return upper_digits + ((pairs - upper_digits * 10) << 8U);
}

constexpr std::uint64_t kAsciiZeros = 0x3030303030303030;

inline void put_eight(char* to, std::uint64_t characters) {
  static_assert(std::endian::native == std::endian::little, "the lowest byte is written first");
  std::memcpy(to, &characters, sizeof characters);
}

// write_shortest_float() uses the method of Schubfach (Giulietti, "The Schubfach way to render doubles",
// 2020). Choose the largest power 10^k that is at most the distance between neighbouring floats. The interval
// of numbers that read back to the value contains at most one multiple of 10^(k + 1). If there is one, it is
// the shortest decimal; otherwise the multiple of 10^k nearest to the value is. One product of 24 by 64 bits
// gives the value and the interval in units of 10^k.

__extension__ using Wide = unsigned __int128;

constexpr int kMantissaBits = 23;
constexpr std::uint32_t kHiddenBit = std::uint32_t{1} << kMantissaBits;
constexpr std::uint32_t kInfiniteExponent = 255;

/// The scale of all floats with one exponent. These floats are multiples of 2^q.
struct DecimalScale {
  std::uint64_t unit;  // 2^q / 10^k, in [1, 10), as multiples of 2^-60, rounded up
  int k;               // floor(log10(2^q))
};

constexpr int kUnitBits = 60;

constexpr int floor_log10_pow2(int q) {
  return static_cast<int>(q * std::int64_t{1262611} >> 22);  // for |q| <= 1500
}

constexpr Wide power_of_five(int n) {
  Wide power = 1;
  for (int i = 0; i < n; ++i) power *= 5;
  return power;
}

/// Returns 2^q 10^-k 2^60 = 5^-k 2^(q - k + 60), rounded up. The largest power used, 5^45, has 105 bits.
constexpr std::uint64_t unit_of(int q, int k) {
  const int shift = q - k + kUnitBits;
  if (k <= 0) {
    const Wide power = power_of_five(-k);
    if (shift >= 0) return static_cast<std::uint64_t>(power << shift);
    return static_cast<std::uint64_t>((power >> -shift) + ((power >> -shift << -shift) == power ? 0 : 1));
  }
  const Wide divisor = power_of_five(k);
  Wide rest = 1;
  std::uint64_t quotient = 0;
  for (int i = 0; i < shift; ++i) {
    rest *= 2;
    quotient *= 2;
    if (rest < divisor) continue;
    rest -= divisor;
    ++quotient;
  }
  return quotient + (rest == 0 ? 0 : 1);
}

constexpr std::array<DecimalScale, kInfiniteExponent> make_scales() {
  std::array<DecimalScale, kInfiniteExponent> scales{};
  for (int exponent = 0; exponent < static_cast<int>(kInfiniteExponent); ++exponent) {
    const int q = (exponent == 0 ? 1 : exponent) - 127 - kMantissaBits;
    const int k = floor_log10_pow2(q);
    scales[static_cast<std::size_t>(exponent)] = {unit_of(q, k), k};
  }
  return scales;
}

constexpr std::array<DecimalScale, kInfiniteExponent> kScales = make_scales();

/// Returns `then` or `otherwise` without a branch, because the processor cannot predict the condition.
constexpr std::uint32_t select(bool condition, std::uint32_t then, std::uint32_t otherwise) {
  return otherwise ^ ((then ^ otherwise) & (0U - std::uint32_t{condition}));
}

/// The number digits * 10^exponent. `digits` is 0 if the search failed.
struct Decimal {
  std::uint32_t digits;  // below 10^9
  int exponent;
};

/// Returns the shortest decimal that reads back to mantissa * 2^q. The interval of such numbers extends half
/// a gap above the value and half a gap below it (a quarter below a power of two, for which lower_shift is
/// 2), where a gap is the distance to the next larger float. The ends belong to the interval if the mantissa
/// is even. The search may fail only if lower_shift is 2.
///
/// Numbers are fixed-point with 36 fractional bits. Rounding errors are less than 4 units of the last bit.
/// Adding or subtracting 8 units decides ties. A test, which is skipped by default, compares the result for
/// every float32 with std::to_chars.
template <int lower_shift>
inline Decimal shortest_decimal(std::uint32_t mantissa, const DecimalScale& scale) {
  constexpr int point = 36;
  const std::uint64_t tie = 8 - std::uint64_t{mantissa & 1U} * 16;
  const auto value = static_cast<std::uint64_t>(Wide{mantissa} * scale.unit >> (kUnitBits - point));
  const std::uint64_t gap = scale.unit >> (kUnitBits - point);
  const auto last = static_cast<std::uint32_t>((value + gap / 2 + tie) >> point);
  const auto before = static_cast<std::uint32_t>((value - (gap >> lower_shift) - tie) >> point);
  const std::uint32_t past_ten = last % 10;
  const std::uint64_t to_even = (value >> point & 1U) * 16;
  const auto nearest =
      static_cast<std::uint32_t>((value + (std::uint64_t{1} << (point - 1)) - 8 + to_even) >> point);
  const std::uint32_t digits = select(past_ten < last - before, last - past_ten, nearest);
  if (lower_shift == 2 && digits <= before) return {0, 0};
  return {digits, scale.k};
}

/// A decimal number d.dddddddd * 10^exponent, as characters.
struct Digits {
  char first;
  std::uint64_t others;  // eight digits, including trailing zeros
  int count;             // number of digits without trailing zeros, 1 to 9
  int exponent;
};

/// Returns 10^missing / 10^8 in units of 2^-64, rounded up.
constexpr std::uint64_t place_value(int missing) {
  Wide power = 1;
  for (int i = 0; i < missing; ++i) power *= 10;
  return static_cast<std::uint64_t>((power << 64U) / 100000000) + 1;
}

inline Digits split(Decimal decimal) {
  constexpr std::uint32_t ninth = 100000000;
  static constexpr std::array<std::uint64_t, 3> place_values{place_value(0), place_value(1), place_value(2)};
  std::uint32_t digits = decimal.digits;
  int exponent = decimal.exponent + 8;
  if (digits < ninth / 100) [[unlikely]] {  // the value is a subnormal float
    for (; digits < ninth / 100; --exponent) digits *= 10;
  }
  const std::uint64_t missing =
      ((std::uint64_t{digits} - ninth) >> 63U) + ((std::uint64_t{digits} - ninth / 10) >> 63U);
  // The integer part of `first` is the first digit. Each product with 10^4 gives four more digits. The place
  // value is too large by at most 1, so the fraction is too large by less than 2^30 / 2^64, which never
  // changes a digit.
  const Wide first = Wide{digits} * place_values[missing];
  const auto whole = [](Wide fixed) { return static_cast<std::uint64_t>(fixed >> 64U); };
  const Wide upper = Wide{static_cast<std::uint64_t>(first)} * 10000;
  const Wide lower = Wide{static_cast<std::uint64_t>(upper)} * 10000;
  const std::uint64_t others = eight_digits(whole(upper), whole(lower));
  const int bytes = static_cast<int>(std::bit_width(others | 1U) + 7) / 8;
  return {static_cast<char>('0' + whole(first)), others + kAsciiZeros, others == 0 ? 1 : 1 + bytes,
          exponent - static_cast<int>(missing)};
}

/// The text layout of a number that is below 1 or has an exponent: 0.000ddd from 10^-4 on, d.ddde-05 below.
struct ExponentForm {
  std::array<char, 4> suffix;  // "e-45" to "e+38"
  std::uint8_t suffix_size;    // 0 or 4
  std::uint8_t first, others;  // positions of the first digit and of the others
  std::uint8_t more;           // number of other characters: the point of d.ddd, or the leading "0.000"
};

constexpr int kMinExponent = -45;
constexpr int kMaxExponent = 38;

constexpr std::array<ExponentForm, kMaxExponent - kMinExponent + 1> make_forms() {
  std::array<ExponentForm, kMaxExponent - kMinExponent + 1> forms{};
  for (int exponent = kMinExponent; exponent <= kMaxExponent; ++exponent) {
    const int size = exponent < 0 ? -exponent : exponent;
    ExponentForm& form = forms[static_cast<std::size_t>(exponent - kMinExponent)];
    form.suffix = {'e', exponent < 0 ? '-' : '+', static_cast<char>('0' + size / 10),
                   static_cast<char>('0' + size % 10)};
    const bool fixed = exponent < 0 && exponent >= -4;
    const auto place = static_cast<std::uint8_t>(fixed ? 1 + size : 0);
    form.suffix_size = fixed ? 0 : 4;
    form.first = place;
    form.others = fixed ? static_cast<std::uint8_t>(place + 1) : 2;
    form.more = fixed ? place : 1;
  }
  return forms;
}

constexpr auto kForms = make_forms();

/// Writes a number with the layout of ExponentForm. Has no branch, because 0.000ddd and d.ddde-05 are both
/// frequent among attention weights and cannot be predicted.
inline char* write_form(char* to, const Digits& digits) {
  const ExponentForm& form = kForms[static_cast<std::size_t>(digits.exponent - kMinExponent)];
  put_eight(to, kAsciiZeros - (std::uint64_t{'0' - '.'} << 8U));  // 0.000000
  put_eight(to + form.others, digits.others);
  to[form.first] = digits.first;
  char* const end = to + digits.count + form.more;
  std::memcpy(end, form.suffix.data(), form.suffix.size());
  return end + form.suffix_size;
}

/// Writes a number with a single digit: as 0.00d from 10^-3 to below 1, otherwise with an exponent and
/// without a decimal point (1e-05, 1e+05).
char* write_single(char* to, const Digits& digits) {
  const ExponentForm& form = kForms[static_cast<std::size_t>(digits.exponent - kMinExponent)];
  if (form.suffix_size == 0 && digits.exponent >= -3) return write_form(to, digits);
  *to = digits.first;
  std::memcpy(to + 1, form.suffix.data(), form.suffix.size());
  return to + 5;
}

char* write_from_one(char* to, const Digits& digits, float value) {
  const int last = digits.exponent - digits.count + 1;  // power of ten of the last digit
  if (last > (digits.count > 1 ? 5 : 4))
    return digits.count > 1 ? write_form(to, digits) : write_single(to, digits);
  if (last >= 0) {  // an integer is written with all digits, even if fewer digits would read back to it
    return std::to_chars(to, to + kShortestFloatSpace, static_cast<std::uint64_t>(value)).ptr;
  }
  to[0] = digits.first;
  put_eight(to + 1, digits.others);
  char* const point = to + digits.exponent + 1;
  *point = '.';
  put_eight(point + 1, digits.others >> (8 * digits.exponent));
  return to + digits.count + 1;
}

Decimal decimal_of(std::uint32_t exponent, std::uint32_t fraction) {
  const DecimalScale& scale = kScales[exponent];
  if (exponent == 0) [[unlikely]]
    return shortest_decimal<1>(fraction, scale);
  if (fraction == 0 && exponent > 1) [[unlikely]]
    return shortest_decimal<2>(kHiddenBit, scale);
  return shortest_decimal<1>(fraction | kHiddenBit, scale);
}

constexpr std::array<double, 10> kPowersOfTen{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};

template <typename T>
char* write_shortest(char* to, T value) {
  if (value != 0) {
    if constexpr (std::is_same_v<T, float>) return write_shortest_float(to, value);
    return std::to_chars(to, to + NumberFormat::kMostCharacters, value).ptr;
  }
  if (!std::signbit(value)) {
    *to = '0';
    return to + 1;
  }
  return std::ranges::copy(std::string_view("-0.0"), to).out;  // many readers parse "-0" as the integer 0
}

template <typename T>
char* write_fixed(char* to, T value, int digits) {
  return std::to_chars(to, to + NumberFormat::kMostCharacters, value, std::chars_format::fixed, digits).ptr;
}

/// Writes a number below 10^count as `count` digits (at least 1) with leading zeros. May overwrite up to
/// seven characters after them.
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

/// Rounds to the nearest integer, ties to even. Adding 2^52 to a number below 2^51 removes its fraction.
double rounded(double size) {
  constexpr double no_fraction = 4503599627370496;
  return size < no_fraction / 2 ? (size + no_fraction) - no_fraction : std::nearbyint(size);
}

/// Writes a float with at most nine decimals. Uses one scaled integer, which is faster than std::to_chars.
/// The scaling is exact, because the product of the 24 bits of the float and the 21 bits of 5^9 fits into a
/// double. Only the last decimal is rounded.
char* write_scaled(char* to, float value, std::size_t digits) {
  const double power = kPowersOfTen[digits];
  const auto scaled = static_cast<std::uint64_t>(rounded(std::abs(static_cast<double>(value)) * power));
  const auto one = static_cast<std::uint64_t>(power);
  const std::uint64_t whole = scaled < one ? 0 : scaled / one;
  *to = '-';
  to += std::signbit(value) ? 1 : 0;
  to = std::to_chars(to, to + NumberFormat::kMostCharacters - 1, whole).ptr;
  if (digits == 0) return to;
  *to = '.';
  return write_padded(to + 1, scaled - whole * one, digits);
}

}  // namespace

char* write_shortest_float(char* to, float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  *to = '-';
  to += bits >> 31U;
  bits &= 0x7FFFFFFF;
  if (bits == 0) {
    *to = '0';
    return to + 1;
  }
  const Decimal decimal = decimal_of(bits >> kMantissaBits, bits & (kHiddenBit - 1));
  const auto size = std::bit_cast<float>(bits);
  if (decimal.digits == 0) [[unlikely]]
    return std::to_chars(to, to + kShortestFloatSpace, size).ptr;
  const Digits digits = split(decimal);
  if (digits.exponent >= 0) return write_from_one(to, digits, size);
  if (digits.count == 1) [[unlikely]]
    return write_single(to, digits);
  return write_form(to, digits);
}

char* NumberFormat::write(char* to, float value) const {
  if (!digits) return write_shortest(to, value);
  constexpr float fits = 1e8F;  // fits * 10^9 is below 2^63
  if (*digits < static_cast<int>(kPowersOfTen.size()) && std::abs(value) < fits) {
    return write_scaled(to, value, static_cast<std::size_t>(*digits));
  }
  return write_fixed(to, value, *digits);
}

char* NumberFormat::write(char* to, double value) const {
  return digits ? write_fixed(to, value, *digits) : write_shortest(to, value);
}

char* NumberFormat::write(char* to, std::int64_t value) {
  return std::to_chars(to, to + kMostCharacters, value).ptr;
}

}  // namespace attnctl::report
