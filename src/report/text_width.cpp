#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include "base/text.hpp"
#include "report/text.hpp"

namespace attnctl::report {
namespace {

std::size_t width_of(char32_t point) {
  if (point < 0x300) return 1;
  const auto c = static_cast<UChar32>(point);
  constexpr std::uint32_t invisible = U_GC_MN_MASK | U_GC_ME_MASK | U_GC_CF_MASK;
  if ((U_GET_GC_MASK(c) & invisible) != 0) return 0;
  // Hangul vowels and final consonants are drawn in the same columns as the consonant before them.
  const auto syllable = u_getIntPropertyValue(c, UCHAR_HANGUL_SYLLABLE_TYPE);
  if (syllable == U_HST_VOWEL_JAMO || syllable == U_HST_TRAILING_JAMO) return 0;
  const auto width = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

}  // namespace

Character take_character(std::string_view& text) {
  const std::size_t length = utf8_sequence_length(text);
  const std::string_view bytes = text.substr(0, std::max<std::size_t>(length, 1));
  text.remove_prefix(bytes.size());
  return {bytes, length == 0 ? 1 : width_of(utf8_code_point(bytes))};
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) width += take_character(text).columns;
  return width;
}

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width || width == 0) return std::string(width == 0 ? "" : text);
  std::string kept;
  std::size_t used = 1;  // the ellipsis takes one column
  while (true) {
    const Character character = take_character(text);
    used += character.columns;
    if (used > width) return kept + "\xE2\x80\xA6";
    kept += character.bytes;
  }
}

void append_aligned(std::string& line, std::string_view text, std::size_t width, bool right) {
  const std::size_t own = display_width(text);
  const std::size_t fill = width - std::min(width, own);
  if (right) line.append(fill, ' ');
  line += text;
  if (!right) line.append(fill, ' ');
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.front() == '-' && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);
  return text;
}

}  // namespace attnctl::report
