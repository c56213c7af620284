#pragma once

#include <string>
#include <string_view>

namespace attnctl {

/// Text from a file as an error shows it: escaped, and shortened in the middle where it is long.
[[nodiscard]] std::string shown(std::string_view text);

/// The same in double quotes.
[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  return '"' + shown(text) + '"';
}

}  // namespace attnctl
