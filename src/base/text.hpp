#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

/// Returns text from outside (a path, a tensor name, a token) in a form that is safe for one line of a
/// terminal: control bytes, DEL, C1 controls and bytes that are not UTF-8 become \xNN.
[[nodiscard]] std::string escaped(std::string_view text);

/// Formats text from a file for an error message: escaped, and shortened in the middle if it is long.
[[nodiscard]] std::string shown(std::string_view text);

/// Returns shown() in double quotes.
[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  return '"' + shown(text) + '"';
}

/// Splits a text at separators and returns all parts, also empty ones. An empty text has one empty part.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// Checks a path that a file gives for another file or for an archive member. Returns the fault,
/// or nullopt if it is a plain relative path that cannot leave its directory.
[[nodiscard]] std::optional<std::string_view> path_fault(std::string_view path);

/// Reads the whole text as a decimal number from 0. Returns nullopt for anything else: for example a sign, a
/// space, or a number that does not fit.
[[nodiscard]] std::optional<std::size_t> parse_number(std::string_view text);

/// Returns the length of the well-formed UTF-8 sequence at the beginning of a text that is not empty, or 0 if
/// it is ill-formed (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text);

/// Returns the code point of a well-formed sequence.
[[nodiscard]] char32_t utf8_code_point(std::string_view sequence);

/// Returns the index of the first byte that does not begin a well-formed sequence; nullopt if the text is
/// UTF-8.
[[nodiscard]] std::optional<std::size_t> find_ill_formed_utf8(std::string_view text);

/// Returns the XXH64 hash (Collet 2012), which identifies contents. It is not cryptographic: equal hashes can
/// be forged.
[[nodiscard]] std::uint64_t content_hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t content_hash(std::string_view text, std::uint64_t seed = 0);

/// Returns a hash as files and messages show it: 16 hexadecimal digits.
[[nodiscard]] std::string hash_text(std::uint64_t hash);

}  // namespace attnctl
