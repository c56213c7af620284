#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace attnctl {

enum class FormatCharacters { escape, keep };

/// Makes text safe to print on one line of a terminal. Each byte of a control character (C0, DEL or C1) or of
/// ill-formed UTF-8 is replaced by \xNN with two hexadecimal digits. With `escape`, an invisible format
/// character, such as a bidirectional control or U+200B, is replaced by \uNNNN or \UNNNNNNNN. U+200C and
/// U+200D stay, because Persian, Indic scripts and emoji need them.
[[nodiscard]] std::string escaped(std::string_view text, FormatCharacters format = FormatCharacters::escape);

/// Returns a message as one escaped line of at most 460 bytes, so that a line of stderr has at most 500 with
/// what the program adds. Replaces the middle of the longest words and clauses by "...".
[[nodiscard]] std::string message_line(std::string_view message);

/// Escapes a text for an error message, and replaces its middle by "..." if it has more than 160 bytes.
[[nodiscard]] std::string shown(std::string_view text);

[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  return '"' + shown(text) + '"';
}

[[nodiscard]] inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the number that is stored in at most 8 bytes, the least significant byte first.
[[nodiscard]] inline std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

/// Returns a number with a noun: "1 layer" or "3 layers". `plural` is needed if it is not the noun and "s".
[[nodiscard]] inline std::string counted(std::size_t count, std::string_view noun,
                                         std::string_view plural = {}) {
  if (count != 1 && !plural.empty()) return fmt::format("{} {}", count, plural);
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

[[nodiscard]] std::string lower_case(std::string_view text);  // changes only ASCII letters

/// Splits a text at each separator. Keeps empty fields; an empty text has one empty field.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// Returns the texts std::invoke(text, item) of all items.
template <typename Items, typename Text>
[[nodiscard]] std::vector<std::string> texts_of(const Items& items, Text text) {
  std::vector<std::string> texts;  // Clang 14 does not compile std::views::transform
  for (const auto& item : items) texts.emplace_back(std::invoke(text, item));
  return texts;
}

/// Returns the texts std::invoke(text, item) of all items, joined by `separator`.
template <typename Items, typename Text>
[[nodiscard]] std::string join_texts(const Items& items, Text text, std::string_view separator = ", ") {
  return fmt::format("{}", fmt::join(texts_of(items, text), separator));
}

/// Returns the only name in which two neighbouring letters of a misspelt word are swapped, or else the only
/// name that begins with the word, or else the name with the fewest edits. Empty if no name is close, or if
/// several are equally close.
[[nodiscard]] std::string_view closest_name(std::string_view word, std::span<const std::string_view> names);

/// Returns ` (did you mean "NAME"?)` with the closest of the names; empty if no name is close.
template <typename Items, typename Name = std::identity>
[[nodiscard]] std::string did_you_mean(std::string_view word, const Items& items, Name name = {}) {
  std::vector<std::string_view> names;
  for (const auto& item : items) names.push_back(std::invoke(name, item));
  const std::string_view found = closest_name(word, names);
  return found.empty() ? "" : " (did you mean \"" + std::string(found) + "\"?)";
}

/// Removes the first line of a text and returns it without its end: LF, CRLF, or a CR at the end of the text.
[[nodiscard]] std::string_view take_line(std::string_view& text);

/// Returns what is wrong with a path in a file ("which contains a backslash"), or nullopt for a relative path
/// without backslashes, NUL bytes, empty parts, "." and "..".
[[nodiscard]] std::optional<std::string_view> path_fault(std::string_view path);

/// Parses decimal digits. Returns nullopt for any other text (a sign, a space) and for a too large number.
[[nodiscard]] std::optional<std::size_t> parse_number(std::string_view text);

/// Returns the length in bytes of the UTF-8 sequence at the beginning of a non-empty text, or 0 if it is
/// ill-formed (Unicode 15, table 3-7), such as overlong forms, surrogates and code points above U+10FFFF.
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text);

/// Returns the code point of a text that is one well-formed UTF-8 sequence.
[[nodiscard]] char32_t utf8_code_point(std::string_view sequence);

/// Returns the byte offset of the first ill-formed UTF-8 sequence, or nullopt if the whole text is
/// well-formed.
[[nodiscard]] std::optional<std::size_t> find_ill_formed_utf8(std::string_view text);

/// Returns the XXH64 hash (Collet 2012), used to recognise equal contents. The hash is not cryptographic: an
/// attacker can construct another content with the same hash.
[[nodiscard]] std::uint64_t content_hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] inline std::uint64_t content_hash(std::string_view text, std::uint64_t seed = 0) {
  return content_hash(std::as_bytes(std::span(text)), seed);
}

[[nodiscard]] inline std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace attnctl
