#include "base/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace attnctl {

std::size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto in = [&](std::size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return in(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

char32_t utf8_code_point(std::string_view sequence) {
  const auto first = static_cast<std::uint8_t>(sequence[0]);
  if (sequence.size() == 1) return first;
  char32_t point = first & (0x7FU >> sequence.size());
  for (const char c : sequence.substr(1)) point = point << 6U | (static_cast<std::uint8_t>(c) & 0x3FU);
  return point;
}

std::optional<std::size_t> find_ill_formed_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    std::uint64_t eight = 0;
    if (text.size() - i >= sizeof(eight)) std::memcpy(&eight, text.data() + i, sizeof(eight));
    constexpr std::uint64_t kHighBits = 0x8080808080808080U;
    if (text.size() - i >= sizeof(eight) && (eight & kHighBits) == 0) {
      i += sizeof(eight);
      continue;
    }
    const std::size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

}  // namespace attnctl
