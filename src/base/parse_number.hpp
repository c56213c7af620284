#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace attnctl {

/// The whole text as a number from 0; nullopt for anything else, a sign, a space or too large a number
/// included.
[[nodiscard]] inline std::optional<std::size_t> parse_number(std::string_view text) {
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace attnctl
