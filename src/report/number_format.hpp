#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attnctl::report {

/// The text format of numbers. Without `digits`, a number is written as the shortest text that reads back to
/// the same float32 or float64. With `digits`, it is written with this number of decimals, rounded to
/// nearest, ties to even. The text is a JSON number. Without `digits`, -0 is written as "-0.0". Integers have
/// no decimals. Values must be finite: the writers handle NaN and infinities themselves.
struct NumberFormat {
  static constexpr int kMostDigits = 20;
  /// Space that write() needs, in characters. The text of a number is never longer.
  static constexpr std::size_t kMostCharacters = 336;

  std::optional<int> digits;  // from 0 to kMostDigits

  /// Write a number at `to`, which must have space for kMostCharacters, and return the end of the text.
  char* write(char* to, float value) const;
  char* write(char* to, double value) const;
  static char* write(char* to, std::int64_t value);

  template <typename T>
  void append(std::string& text, T value) const {
    char buffer[kMostCharacters];
    text += std::string_view(buffer, write(buffer, value));
  }
};

/// Number of characters that write_shortest_float() may overwrite. The text itself has at most 16.
inline constexpr int kShortestFloatSpace = 24;

/// Writes the shortest decimal number that reads back to the same float32; of several such numbers, the one
/// nearest to the value. Returns the end of the text. The text is equal to that of std::to_chars(float). The
/// value must be finite.
///
/// This function exists because the JSON of attention patterns consists mostly of floats, and std::to_chars
/// of GCC 12 is slower: it takes 53 instead of 23 ns for an attention weight and 73 instead of 38 ns for
/// random bits. Doubles are rare and use std::to_chars.
char* write_shortest_float(char* to, float value);

}  // namespace attnctl::report
