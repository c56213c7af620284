#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tokenizer/part_config.hpp"
#include "tokenizer/piece_text.hpp"

/// Byte-level vocabularies write each byte of a text as one visible character: printable characters of
/// Latin-1 as themselves, the other bytes in order as U+0100 and following (a space is U+0120).
namespace attnctl::byte_level {

struct ByteCharacter {
  std::array<char, 2> utf8{};
  std::uint8_t size = 0;

  [[nodiscard]] constexpr std::string_view view() const { return {utf8.data(), size}; }
};

[[nodiscard]] constexpr std::array<char16_t, 256> make_code_points() {
  std::array<char16_t, 256> table{};
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    table[byte] = static_cast<char16_t>(printable ? byte : next++);
  }
  return table;
}
inline constexpr std::array<char16_t, 256> kCodePoints = make_code_points();

[[nodiscard]] constexpr std::array<ByteCharacter, 256> make_characters() {
  std::array<ByteCharacter, 256> table{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const unsigned c = kCodePoints[byte];
    if (c < 0x80) {
      table[byte] = {{static_cast<char>(c), 0}, 1};
    } else {
      table[byte] = {{static_cast<char>(0xC0U | (c >> 6U)), static_cast<char>(0x80U | (c & 0x3FU))}, 2};
    }
  }
  return table;
}
inline constexpr std::array<ByteCharacter, 256> kCharacters = make_characters();

/// The character of a space.
inline constexpr char32_t kSpace = kCodePoints[0x20];

/// Returns the byte of a character; nullopt if it has none.
[[nodiscard]] constexpr std::optional<unsigned char> byte_of(char32_t c) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (kCodePoints[byte] == c) return static_cast<unsigned char>(byte);
  }
  return std::nullopt;
}

/// Replaces each byte of the text pieces by its character.
void write(PieceText& text);

/// The pre-tokenizer ByteLevel: cuts with the expression of GPT-2 and calls write().
[[nodiscard]] TextStep make_pre_tokenizer(const PartConfig& config);

}  // namespace attnctl::byte_level
