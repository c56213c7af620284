#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attnctl {

inline constexpr std::string_view ansi_bold = "\x1b[1m";
inline constexpr std::string_view ansi_dim = "\x1b[2m";
inline constexpr std::string_view ansi_plain = "\x1b[0m";

/// Appends a text padded to `width` columns, aligned to the left or right.
void append_aligned(std::string& line, std::string_view text, std::size_t width, bool right);

/// Formats a number with fixed decimals and without a negative zero; "-" if it is not finite.
[[nodiscard]] std::string fixed(double value, int digits);

}  // namespace attnctl
