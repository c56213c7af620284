#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace attnctl {

/// The text format of numbers. By default it is the shortest text that reads back to the same float32 or
/// float64. With `digits` it has this number of decimals, rounded to nearest, ties to even. The text is a
/// JSON number; -0 is "-0.0". Values must be finite: each writer handles NaN and infinities.
struct NumberFormat {
  static constexpr int most_digits = 20;
  /// The largest number of characters of one number.
  static constexpr std::size_t most_characters = 336;

  std::optional<int> digits;  // 0 to most_digits

  /// Writes at `to`, which has space for most_characters, and returns the end.
  char* write(char* to, float value) const;
  char* write(char* to, double value) const;
  static char* write(char* to, std::int64_t value);

  template <typename T>
  void append(std::string& text, T value) const {
    char buffer[most_characters];
    text.append(buffer, write(buffer, value));
  }
};

/// Number of characters that write_shortest_float() may overwrite. The text itself has at most 16.
inline constexpr int kShortestFloatSpace = 24;

/// Writes the shortest decimal that reads back to the same float32 (of several the nearest), with the same
/// bytes as std::to_chars(float), and returns the end. The value must be finite.
///
/// Our own code, because the JSON of attention patterns is mostly floats, and std::to_chars of GCC 12 takes
/// about twice the time: 53 instead of 23 ns for an attention weight, 73 instead of 38 ns for random bits
/// (10 million each). The JSON of 37.7 million weights takes 0.82 s on one thread; with std::to_chars about
/// 1.4 s. Doubles are rare and use std::to_chars.
char* write_shortest_float(char* to, float value);

}  // namespace attnctl
