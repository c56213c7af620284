#include "tokenizer/unicode/unicode.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <unicode/uchar.h>

namespace attnctl::unicode {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// The reference takes its sets from libraries of different years. ICU 72 is Unicode 15: older sets are made
// by age, and what differs still is in these tables (a few characters changed their category since).
constexpr Range punctuation_then[] = {{0x166D, 0x166D}, {0x111C9, 0x111C9}};  // So, Mn now
constexpr Range bert_marks_then[] = {{0x1734, 0x1734}};                       // Mc now
constexpr Range bert_marks_since[] = {{0x1885, 0x1886}, {0xA9BD, 0xA9BD}, {0x111C9, 0x111C9}};
constexpr Range marks_then[] = {{0x1CF2, 0x1CF3}};  // Lo now
constexpr Range marks_since[] = {{0x111C9, 0x111C9}};
// N of Unicode 17 that Unicode 16 has not.
constexpr Range numbers_of_17[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};
// As the reference writes them: 2B820-2B91F are missing.
constexpr Range cjk_ranges[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                                {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
constexpr Range ascii_symbols[] = {{0x21, 0x2F}, {0x3A, 0x40}, {0x5B, 0x60}, {0x7B, 0x7E}};
constexpr Range white_spaces[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                  {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                  {0x205F, 0x205F}, {0x3000, 0x3000}};
constexpr Range joiners[] = {{0x200C, 0x200D}};

constexpr std::uint32_t letters = U_GC_L_MASK;
constexpr std::uint32_t caseless = U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK;
constexpr std::uint32_t word_categories =
    U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_NL_MASK | U_GC_PC_MASK;

class Builder {
 public:
  Builder() : bits_(code_points, 0) {
    u_enumCharTypes(
        [](const void* self, UChar32 first, UChar32 limit, UCharCategory category) -> UBool {
          auto& builder = *static_cast<Builder*>(const_cast<void*>(self));  // ICU's way to hand it through
          builder.add(static_cast<char32_t>(first), static_cast<char32_t>(limit), category);
          return true;
        },
        this);
    for (const CategoryRange& later : later_categories()) {
      for (char32_t c = later.first; c <= later.last; ++c) {
        bits_[c] |= of_category(std::uint32_t{1} << static_cast<unsigned>(later.category));
      }
    }
    set(ascii_symbols, bert_punctuation);
    set(punctuation_then, bert_punctuation);
    set(bert_marks_then, bert_mark);
    clear(bert_marks_since, bert_mark);
    set(marks_then, mark);
    clear(marks_since, mark);
    set(numbers_of_17, number);
    set(cjk_ranges, cjk);
    set(white_spaces, white_space);
    set(joiners, word);
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
    if ((mask & word_categories) != 0) bits |= word;
    if ((mask & letters) != 0) bits |= regex_letter;
    if ((mask & caseless) != 0) bits |= regex_capital | regex_small;
    if ((mask & (U_GC_LU_MASK | U_GC_LT_MASK)) != 0) bits |= regex_capital;
    if ((mask & U_GC_LL_MASK) != 0) bits |= regex_small;
    if ((mask & U_GC_N_MASK) != 0) bits |= number | regex_number;
    return bits;
  }

  /// The classes that hold only for what was there in the year of their set.
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
      // Letters in circles and squares are Alphabetic, and so in \w.
      if ((mask & U_GC_SO_MASK) != 0 && u_isUAlphabetic(static_cast<UChar32>(c)) != 0) bits_[c] |= word;
    }
  }

  template <std::size_t N>
  void set(const Range (&ranges)[N], Class of) {
    for (const Range& range : ranges) {
      for (char32_t c = range.first; c <= range.last; ++c) bits_[c] |= of;
    }
  }
  template <std::size_t N>
  void clear(const Range (&ranges)[N], Class of) {
    for (const Range& range : ranges) {
      for (char32_t c = range.first; c <= range.last; ++c) bits_[c] &= static_cast<std::uint16_t>(~of);
    }
  }

  std::vector<std::uint16_t> bits_;  // [code points]
};

// Lowercase mappings that came after Unicode 15, up to 17: `count` letters from `first` map in order.
struct LowerRange {
  char32_t first;
  char32_t count;
  char32_t lower;
};
constexpr LowerRange later_lower[] = {
    {0x1C89, 1, 0x1C8A},    {0xA7CB, 1, 0x264},     {0xA7CC, 1, 0xA7CD}, {0xA7CE, 1, 0xA7CF},
    {0xA7D2, 1, 0xA7D3},    {0xA7D4, 1, 0xA7D5},    {0xA7DA, 1, 0xA7DB}, {0xA7DC, 1, 0x19B},
    {0x10D50, 22, 0x10D70}, {0x16EA0, 25, 0x16EBB},
};

}  // namespace

char32_t previous(std::string_view text, std::size_t& i) {
  --i;
  while ((static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U) --i;
  std::size_t at = i;
  return next(text, at);
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
  for (const LowerRange& range : later_lower) {
    if (c >= range.first && c - range.first < range.count) return range.lower + (c - range.first);
  }
  return c;
}

bool is_as_old_as(char32_t c, unsigned version) {
  UVersionInfo age{};
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && age[0] <= version;
}

std::int8_t category(char32_t c) {
  const std::vector<CategoryRange>& later = later_categories();
  const auto behind = std::upper_bound(
      later.begin(), later.end(), c, [](char32_t x, const CategoryRange& range) { return x < range.first; });
  if (behind != later.begin() && c <= std::prev(behind)->last) return std::prev(behind)->category;
  return u_charType(static_cast<UChar32>(c));
}

}  // namespace attnctl::unicode
