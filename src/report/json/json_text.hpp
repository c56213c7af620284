#pragma once

#include <string>
#include <string_view>

namespace attnctl {

/// Appends a JSON string with its quotes. The result is valid UTF-8 for any input: each invalid byte becomes
/// U+FFFD. Escapes the quote, the backslash, all control characters (also DEL and C1, so that a printed
/// document cannot control a terminal), and U+2028 and U+2029, which are line ends in JavaScript.
void append_json_string(std::string& text, std::string_view value);

}  // namespace attnctl
