#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attnctl::report {

/// The size of a character: bytes in UTF-8 and terminal columns. Wide East Asian characters and emoji (UAX
/// 11) have 2 columns. Combining marks, joiners, and the vowels and final consonants of a Hangul syllable
/// have 0 columns. Other characters have 1.
struct Character {
  std::size_t bytes = 0;
  std::size_t columns = 0;
};

/// Returns the size of the first character of a non-empty text.
[[nodiscard]] Character first_character(std::string_view text);

/// Returns the number of terminal columns of a text. The text must not contain control characters (see
/// attnctl::escaped).
[[nodiscard]] std::size_t display_width(std::string_view text);

/// Returns the text if it fits into `width` columns; otherwise its beginning, followed by an ellipsis.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

inline constexpr std::string_view kAnsiBold = "\x1b[1m";
inline constexpr std::string_view kAnsiDim = "\x1b[2m";
inline constexpr std::string_view kAnsiPlain = "\x1b[0m";

/// Appends a text and pads it with spaces to `width` columns. `right` aligns the text to the right.
void append_aligned(std::string& line, std::string_view text, std::size_t width, bool right);

/// Formats a number with `digits` decimals. Writes a negative zero without its sign, and "-" if the number is
/// not finite.
[[nodiscard]] std::string fixed(double value, int digits);

/// Removes the spaces at the end of a text.
inline void trim(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
}

}  // namespace attnctl::report
