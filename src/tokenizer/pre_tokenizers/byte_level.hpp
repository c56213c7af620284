#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace attnctl {
class PieceText;
}

namespace attnctl::byte_level {

/// A byte-level vocabulary writes each byte of a text as one visible character: printable characters of
/// Latin-1 stand for themselves, the other bytes in order for U+0100 and what follows (a space is U+0120).
struct ByteCharacter {
  std::array<char, 2> utf8{};
  std::uint8_t size = 0;

  [[nodiscard]] constexpr std::string_view view() const { return {utf8.data(), size}; }
};

[[nodiscard]] constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

[[nodiscard]] constexpr std::array<char16_t, 256> make_code_points() {
  std::array<char16_t, 256> table{};
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    table[byte] = static_cast<char16_t>(stands_for_itself(byte) ? byte : next++);
  }
  return table;
}

[[nodiscard]] constexpr std::array<ByteCharacter, 256> make_characters() {
  std::array<ByteCharacter, 256> table{};
  const std::array<char16_t, 256> code_points = make_code_points();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const unsigned c = code_points[byte];
    if (c < 0x80) {
      table[byte] = {{static_cast<char>(c), 0}, 1};
    } else {
      table[byte] = {{static_cast<char>(0xC0U | (c >> 6U)), static_cast<char>(0x80U | (c & 0x3FU))}, 2};
    }
  }
  return table;
}

inline constexpr std::array<ByteCharacter, 256> kCharacters = make_characters();

/// How a space is written.
inline constexpr char32_t kSpace = make_code_points()[0x20];

/// Writes each byte of the text pieces as its character.
void write(PieceText& text);

/// The byte that a character stands for.
[[nodiscard]] constexpr std::optional<unsigned char> byte_of(char32_t c) {
  constexpr std::array<char16_t, 256> code_points = make_code_points();
  if (c < 256 && stands_for_itself(c)) return static_cast<unsigned char>(c);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (code_points[byte] == c) return static_cast<unsigned char>(byte);
  }
  return std::nullopt;
}

}  // namespace attnctl::byte_level
