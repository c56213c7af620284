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

}  // namespace attnctl
