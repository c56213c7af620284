#include "report/text_width.hpp"

#include "attnctl/base/utf8.hpp"

#include <algorithm>
#include <iterator>

namespace attnctl {
namespace {

struct Range {
  char32_t first, last;
};

// The blocks of UAX 11 (wide) and of the marks (general categories Mn, Me, Cf) that occur in text. A rare
// character that is missing here costs a column of alignment.
constexpr Range wide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},
                          {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xA960, 0xA97C},   {0xAC00, 0xD7A3},
                          {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
                          {0x16FE0, 0x18AFF}, {0x1B000, 0x1B2FF}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
                          {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};
constexpr Range invisible[] = {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD},  {0x0610, 0x061A},
                               {0x064B, 0x065F}, {0x06D6, 0x06DC}, {0x0900, 0x0902},  {0x0941, 0x0948},
                               {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF},  {0x1DC0, 0x1DFF},
                               {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064},  {0x20D0, 0x20FF},
                               {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}};

template <std::size_t N>
bool within(const Range (&ranges)[N], char32_t point) {
  const auto* after = std::ranges::upper_bound(ranges, point, {}, &Range::first);
  return after != std::begin(ranges) && point <= std::prev(after)->last;
}

std::size_t width_of(char32_t point) {
  if (point < 0x300) return 1;
  if (within(invisible, point)) return 0;
  return within(wide, point) ? 2 : 1;
}

/// The first character of a text that is not empty, as bytes and columns.
struct Character {
  std::size_t bytes, columns;
};

Character first_character(std::string_view text) {
  const std::size_t length = utf8_sequence_length(text);
  if (length == 0) return {1, 1};
  return {length, width_of(utf8_code_point(text.substr(0, length)))};
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    width += character.columns;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width || width == 0) return std::string(width == 0 ? "" : text);
  std::string kept;
  std::size_t used = 1;  // the ellipsis
  while (true) {
    const Character character = first_character(text);
    if (used + character.columns > width) break;
    used += character.columns;
    kept += text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
  return kept + "\xE2\x80\xA6";
}

}  // namespace attnctl
