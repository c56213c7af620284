#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace attnctl {

/// Length of the well-formed UTF-8 sequence at the beginning of `text`, which is not empty; 0 where there is
/// none (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text);

/// The code point of a well-formed sequence.
[[nodiscard]] char32_t utf8_code_point(std::string_view sequence);

/// Where the first byte stands that begins no well-formed sequence; nullopt where all of the text is UTF-8.
[[nodiscard]] std::optional<std::size_t> find_ill_formed_utf8(std::string_view text);

}  // namespace attnctl
