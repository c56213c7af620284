#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attnctl {

/// A character as bytes of UTF-8 and as columns of a terminal: 2 for wide East Asian characters and emoji
/// (UAX 11), 0 for combining marks, joiners and the later parts of a Hangul syllable, else 1.
struct Character {
  std::size_t bytes = 0;
  std::size_t columns = 0;
};

/// The first character of a text that is not empty.
[[nodiscard]] Character first_character(std::string_view text);

/// Columns that a text takes on a terminal. It holds no control characters (attnctl::escaped).
[[nodiscard]] std::size_t display_width(std::string_view text);

/// The text where it fits `width` columns, else its beginning and an ellipsis.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

}  // namespace attnctl
