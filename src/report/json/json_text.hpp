#pragma once

#include <string>
#include <string_view>

namespace attnctl {

/// Appends a JSON string, quotes included. The result is valid UTF-8 whatever the input: bytes that are none
/// become U+FFFD, one each. Escaped are the quote, the backslash, all control characters (DEL and C1 too, so
/// that a printed document cannot steer a terminal), and U+2028 and U+2029, which end lines in JavaScript.
void append_json_string(std::string& text, std::string_view value);

}  // namespace attnctl
