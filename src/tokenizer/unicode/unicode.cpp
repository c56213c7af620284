#include "tokenizer/unicode/unicode.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "base/text.hpp"

namespace attnctl::unicode {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Sets of older versions of Unicode are selected from ICU 72 (Unicode 15) by age. The characters in these
// tables have changed their category since.
constexpr Range kFormerPunctuation[] = {{0x166D, 0x166D}, {0x111C9, 0x111C9}};  // now So, Mn
constexpr Range kFormerBertMarks[] = {{0x1734, 0x1734}};                        // now Mc
constexpr Range kNewBertMarks[] = {{0x1885, 0x1886}, {0xA9BD, 0xA9BD}, {0x111C9, 0x111C9}};
constexpr Range kFormerMarks[] = {{0x1CF2, 0x1CF3}};  // now Lo
constexpr Range kNewMarks[] = {{0x111C9, 0x111C9}};
// N that was added in Unicode 17.
constexpr Range kNumbersOf17[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};
// The reference leaves out 2B820-2B91F.
constexpr Range kCjk[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                          {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
constexpr Range kAsciiSymbols[] = {{0x21, 0x2F}, {0x3A, 0x40}, {0x5B, 0x60}, {0x7B, 0x7E}};
constexpr Range kWhiteSpaces[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                  {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                  {0x205F, 0x205F}, {0x3000, 0x3000}};
constexpr Range kJoiners[] = {{0x200C, 0x200D}};

constexpr std::uint32_t kLetters = U_GC_L_MASK;
constexpr std::uint32_t kCaseless = U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK;
constexpr std::uint32_t kWordCategories =
    U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_NL_MASK | U_GC_PC_MASK;

/// Computes the Class bits of every code point.
class Builder {
 public:
  Builder() : bits_(kCodePoints, 0) {
    u_enumCharTypes(
        [](const void* self, UChar32 first, UChar32 limit, UCharCategory category) -> UBool {
          auto& builder = *static_cast<Builder*>(const_cast<void*>(self));
          builder.add(static_cast<char32_t>(first), static_cast<char32_t>(limit), category);
          return true;
        },
        this);
    for (const LaterRange& later : later_ranges()) {
      for (char32_t c = later.first; c <= later.last; ++c) {
        bits_[c] |= of_category(std::uint32_t{1} << static_cast<unsigned>(later.category));
      }
    }
    set(kAsciiSymbols, bert_punctuation);
    set(kFormerPunctuation, bert_punctuation);
    set(kFormerBertMarks, bert_mark);
    clear(kNewBertMarks, bert_mark);
    set(kFormerMarks, mark);
    clear(kNewMarks, mark);
    set(kNumbersOf17, number);
    set(kCjk, cjk);
    set(kWhiteSpaces, white_space);
    set(kJoiners, word);
    for (const char32_t kept : {U'\t', U'\n', U'\r'})
      bits_[kept] &= static_cast<std::uint16_t>(~bert_dropped);
    bits_[0xFFFD] |= bert_dropped;
  }

  [[nodiscard]] const std::vector<std::uint16_t>& bits() const { return bits_; }

 private:
  std::vector<std::uint16_t>::iterator at(char32_t c) {
    return bits_.begin() + static_cast<std::ptrdiff_t>(c);
  }

  static std::uint16_t of_category(std::uint32_t mask) {
    std::uint16_t bits = 0;
    if ((mask & kWordCategories) != 0) bits |= word;
    if ((mask & kLetters) != 0) bits |= regex_letter;
    if ((mask & kCaseless) != 0) bits |= regex_capital | regex_small;
    if ((mask & (U_GC_LU_MASK | U_GC_LT_MASK)) != 0) bits |= regex_capital;
    if ((mask & U_GC_LL_MASK) != 0) bits |= regex_small;
    if ((mask & U_GC_N_MASK) != 0) bits |= number | regex_number;
    return bits;
  }

  /// Returns the classes that depend on the age of the code point.
  static std::uint16_t of_age(char32_t c, std::uint32_t mask) {
    std::uint16_t bits = 0;
    const bool in_8 = is_as_old_as(c, 8);
    if (in_8 && (mask & U_GC_P_MASK) != 0) bits |= bert_punctuation;
    if (in_8 && (mask & U_GC_MN_MASK) != 0) bits |= bert_mark;
    if (in_8 && (mask & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0) bits |= bert_dropped;
    if ((mask & U_GC_M_MASK) != 0 && is_as_old_as(c, 9)) bits |= mark;
    return bits;
  }

  void add(char32_t first, char32_t limit, UCharCategory category) {
    constexpr std::uint32_t aged = U_GC_P_MASK | U_GC_M_MASK | U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
    const std::uint32_t mask = std::uint32_t{1} << static_cast<unsigned>(category);
    std::fill(at(first), at(limit), of_category(mask));
    for (char32_t c = first; c < limit; ++c) {
      if ((mask & aged) != 0) bits_[c] |= of_age(c, mask);
      // Letters in circles and squares are Alphabetic, which \w includes.
      if ((mask & U_GC_SO_MASK) != 0 && u_isUAlphabetic(static_cast<UChar32>(c)) != 0) bits_[c] |= word;
    }
  }

  template <std::size_t N>
  void set(const Range (&ranges)[N], Class added) {
    for (const Range& range : ranges) {
      for (char32_t c = range.first; c <= range.last; ++c) bits_[c] |= added;
    }
  }
  template <std::size_t N>
  void clear(const Range (&ranges)[N], Class removed) {
    for (const Range& range : ranges) {
      for (char32_t c = range.first; c <= range.last; ++c) bits_[c] &= static_cast<std::uint16_t>(~removed);
    }
  }

  std::vector<std::uint16_t> bits_;  // [code points]
};

// Lowercase mappings of Unicode 16 and 17: `count` letters from `first` on map to those from `lower` on.
struct LowerRange {
  char32_t first;
  char32_t count;
  char32_t lower;
};
constexpr LowerRange kLaterLower[] = {
    {0x1C89, 1, 0x1C8A},    {0xA7CB, 1, 0x264},     {0xA7CC, 1, 0xA7CD}, {0xA7CE, 1, 0xA7CF},
    {0xA7D2, 1, 0xA7D3},    {0xA7D4, 1, 0xA7D5},    {0xA7DA, 1, 0xA7DB}, {0xA7DC, 1, 0x19B},
    {0x10D50, 22, 0x10D70}, {0x16EA0, 25, 0x16EBB},
};

constexpr LaterRange kLaterRanges[] = {
    {0x897, 0x897, U_NON_SPACING_MARK, USCRIPT_ARABIC, true},
    {0x1B4E, 0x1B4F, U_OTHER_PUNCTUATION, USCRIPT_BALINESE},
    {0x1B7F, 0x1B7F, U_OTHER_PUNCTUATION, USCRIPT_BALINESE},
    {0x1C89, 0x1C89, U_UPPERCASE_LETTER, USCRIPT_CYRILLIC},
    {0x1C8A, 0x1C8A, U_LOWERCASE_LETTER, USCRIPT_CYRILLIC},
    {0x2427, 0x2429, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x2FFC, 0x2FFF, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x31E4, 0x31E5, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x31EF, 0x31EF, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0xA7CB, 0xA7CC, U_UPPERCASE_LETTER, USCRIPT_LATIN},
    {0xA7CD, 0xA7CD, U_LOWERCASE_LETTER, USCRIPT_LATIN},
    {0xA7DA, 0xA7DA, U_UPPERCASE_LETTER, USCRIPT_LATIN},
    {0xA7DB, 0xA7DB, U_LOWERCASE_LETTER, USCRIPT_LATIN},
    {0xA7DC, 0xA7DC, U_UPPERCASE_LETTER, USCRIPT_LATIN},
    {0x105C0, 0x105F3, U_OTHER_LETTER},
    {0x10D40, 0x10D49, U_DECIMAL_DIGIT_NUMBER},
    {0x10D4A, 0x10D4D, U_OTHER_LETTER},
    {0x10D4E, 0x10D4E, U_MODIFIER_LETTER},
    {0x10D4F, 0x10D4F, U_OTHER_LETTER},
    {0x10D50, 0x10D65, U_UPPERCASE_LETTER},
    {0x10D69, 0x10D69, U_NON_SPACING_MARK, -1, true},
    {0x10D6A, 0x10D6D, U_NON_SPACING_MARK},
    {0x10D6E, 0x10D6E, U_DASH_PUNCTUATION},
    {0x10D6F, 0x10D6F, U_MODIFIER_LETTER},
    {0x10D70, 0x10D85, U_LOWERCASE_LETTER},
    {0x10D8E, 0x10D8F, U_MATH_SYMBOL},
    {0x10EC2, 0x10EC4, U_OTHER_LETTER, USCRIPT_ARABIC},
    {0x10EFC, 0x10EFC, U_NON_SPACING_MARK, USCRIPT_ARABIC, true},
    {0x11380, 0x11389, U_OTHER_LETTER},
    {0x1138B, 0x1138B, U_OTHER_LETTER},
    {0x1138E, 0x1138E, U_OTHER_LETTER},
    {0x11390, 0x113B5, U_OTHER_LETTER},
    {0x113B7, 0x113B7, U_OTHER_LETTER},
    {0x113B8, 0x113BA, U_COMBINING_SPACING_MARK, -1, true},
    {0x113BB, 0x113C0, U_NON_SPACING_MARK, -1, true},
    {0x113C2, 0x113C2, U_COMBINING_SPACING_MARK, -1, true},
    {0x113C5, 0x113C5, U_COMBINING_SPACING_MARK, -1, true},
    {0x113C7, 0x113CA, U_COMBINING_SPACING_MARK, -1, true},
    {0x113CC, 0x113CD, U_COMBINING_SPACING_MARK, -1, true},
    {0x113CE, 0x113CE, U_NON_SPACING_MARK},
    {0x113CF, 0x113CF, U_COMBINING_SPACING_MARK},
    {0x113D0, 0x113D0, U_NON_SPACING_MARK},
    {0x113D1, 0x113D1, U_OTHER_LETTER},
    {0x113D2, 0x113D2, U_NON_SPACING_MARK},
    {0x113D3, 0x113D3, U_OTHER_LETTER},
    {0x113D4, 0x113D5, U_OTHER_PUNCTUATION},
    {0x113D7, 0x113D8, U_OTHER_PUNCTUATION},
    {0x113E1, 0x113E2, U_NON_SPACING_MARK},
    {0x116D0, 0x116E3, U_DECIMAL_DIGIT_NUMBER, USCRIPT_MYANMAR},
    {0x1171E, 0x1171E, U_COMBINING_SPACING_MARK, -1, true},
    {0x11BC0, 0x11BE0, U_OTHER_LETTER},
    {0x11BE1, 0x11BE1, U_OTHER_PUNCTUATION},
    {0x11BF0, 0x11BF9, U_DECIMAL_DIGIT_NUMBER},
    {0x11F5A, 0x11F5A, U_NON_SPACING_MARK, USCRIPT_KAWI},
    {0x13460, 0x143FA, U_OTHER_LETTER, USCRIPT_EGYPTIAN_HIEROGLYPHS},
    {0x16100, 0x1611D, U_OTHER_LETTER},
    {0x1611E, 0x16129, U_NON_SPACING_MARK, -1, true},
    {0x1612A, 0x1612C, U_COMBINING_SPACING_MARK, -1, true},
    {0x1612D, 0x1612E, U_NON_SPACING_MARK, -1, true},
    {0x1612F, 0x1612F, U_NON_SPACING_MARK},
    {0x16130, 0x16139, U_DECIMAL_DIGIT_NUMBER},
    {0x16D40, 0x16D42, U_MODIFIER_LETTER},
    {0x16D43, 0x16D6A, U_OTHER_LETTER},
    {0x16D6B, 0x16D6C, U_MODIFIER_LETTER},
    {0x16D6D, 0x16D6F, U_OTHER_PUNCTUATION},
    {0x16D70, 0x16D79, U_DECIMAL_DIGIT_NUMBER},
    {0x18CFF, 0x18CFF, U_OTHER_LETTER, USCRIPT_KHITAN_SMALL_SCRIPT},
    {0x1CC00, 0x1CCEF, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1CCF0, 0x1CCF9, U_DECIMAL_DIGIT_NUMBER, USCRIPT_COMMON},
    {0x1CD00, 0x1CEB3, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1E5D0, 0x1E5ED, U_OTHER_LETTER},
    {0x1E5EE, 0x1E5EF, U_NON_SPACING_MARK},
    {0x1E5F0, 0x1E5F0, U_OTHER_LETTER},
    {0x1E5F1, 0x1E5FA, U_DECIMAL_DIGIT_NUMBER},
    {0x1E5FF, 0x1E5FF, U_OTHER_PUNCTUATION},
    {0x1F8B2, 0x1F8BB, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1F8C0, 0x1F8C1, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1FA89, 0x1FA89, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1FA8F, 0x1FA8F, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1FABE, 0x1FABE, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1FAC6, 0x1FAC6, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1FADC, 0x1FADC, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1FADF, 0x1FADF, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1FAE9, 0x1FAE9, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x1FBCB, 0x1FBEF, U_OTHER_SYMBOL, USCRIPT_COMMON},
    {0x2EBF0, 0x2EE5D, U_OTHER_LETTER, USCRIPT_HAN},
};

}  // namespace

std::span<const LaterRange> later_ranges() {
  return kLaterRanges;
}

char32_t previous(std::string_view text, std::size_t& i) {
  --i;
  while ((static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U) --i;
  std::size_t at = i;
  return next(text, at);
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

Utf8::Utf8(char32_t c) {
  const auto put = [&](char32_t byte) { bytes_[size_++] = static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0U | c >> 6U);
    put(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    put(0xE0U | c >> 12U);
    put(0x80U | (c >> 6U & 0x3FU));
    put(0x80U | (c & 0x3FU));
  } else {
    put(0xF0U | c >> 18U);
    put(0x80U | (c >> 12U & 0x3FU));
    put(0x80U | (c >> 6U & 0x3FU));
    put(0x80U | (c & 0x3FU));
  }
}

void append(std::string& text, char32_t c) {
  text.append(std::string_view(Utf8(c)));
}

const CodePointTable<std::uint16_t>& classes() {
  static const CodePointTable<std::uint16_t> table(Builder().bits());
  return table;
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return c >= U'A' && c <= U'Z' ? c + 0x20 : c;
  const auto lower = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
  if (lower != c) return lower;
  for (const LowerRange& range : kLaterLower) {
    if (c >= range.first && c - range.first < range.count) return range.lower + (c - range.first);
  }
  return c;
}

bool is_as_old_as(char32_t c, unsigned version) {
  UVersionInfo age{};
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && age[0] <= version;
}

}  // namespace attnctl::unicode
