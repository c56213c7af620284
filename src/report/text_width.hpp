#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attnctl {

/// Columns that a text takes on a terminal: 2 for wide East Asian characters and emoji, 0 for combining marks
/// and joiners, else 1. The text holds no control characters (attnctl::escaped).
[[nodiscard]] std::size_t display_width(std::string_view text);

/// The text where it fits `width` columns, else its beginning and an ellipsis.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

}  // namespace attnctl
