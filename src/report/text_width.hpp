#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attnctl {

/// The size of a character in bytes of UTF-8 and in terminal columns: 2 for wide East Asian characters and
/// emoji (UAX 11), 0 for combining marks, joiners and the later parts of a Hangul syllable, otherwise 1.
struct Character {
  std::size_t bytes = 0;
  std::size_t columns = 0;
};

/// Returns the first character of a text that is not empty.
[[nodiscard]] Character first_character(std::string_view text);

/// Returns the number of terminal columns of a text without control characters (see attnctl::escaped).
[[nodiscard]] std::size_t display_width(std::string_view text);

/// Returns the text if it fits `width` columns, otherwise its beginning and an ellipsis.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

inline constexpr std::string_view kAnsiBold = "\x1b[1m";
inline constexpr std::string_view kAnsiDim = "\x1b[2m";
inline constexpr std::string_view kAnsiPlain = "\x1b[0m";

/// Appends a text padded to `width` columns, aligned to the left or right.
void append_aligned(std::string& line, std::string_view text, std::size_t width, bool right);

/// Formats a number with fixed decimals and without a negative zero; "-" if it is not finite.
[[nodiscard]] std::string fixed(double value, int digits);

/// Removes the spaces at the end of a text.
inline void trim(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
}

}  // namespace attnctl
