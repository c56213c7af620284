#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace attnctl {

/// Parses a small JSON document strictly: UTF-8 without a byte order mark, no NaN or numbers out of range, no
/// lone surrogates, no duplicate keys, nothing after the value, nesting up to `max_depth`. Key order is kept.
/// `file` names the document in errors, which give the JSON pointer or byte. Throws Error(bad_input).
[[nodiscard]] nlohmann::ordered_json parse_json(const std::string& file, std::string_view text,
                                                std::size_t max_depth = 64);

}  // namespace attnctl
