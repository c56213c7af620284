#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace attnctl {

/// How numbers become text: by default the shortest text that reads back to the same float32 or float64, with
/// `digits` that many decimals, rounded to nearest, ties to even. The text is a JSON number; -0 keeps its
/// sign as "-0.0". Values are finite: what NaN and infinities become is the writer's to say.
struct NumberFormat {
  static constexpr int most_digits = 20;
  /// Characters that one number takes at most.
  static constexpr std::size_t most_characters = 336;

  std::optional<int> digits;  // 0..most_digits

  /// Writes at `to`, which has room for most_characters; returns the end.
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
