#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/unicode/code_point_table.hpp"

namespace attnctl::unicode {

/// The code point at byte `i` of well-formed UTF-8; `i` moves behind it.
inline char32_t next(std::string_view text, std::size_t& i) {
  const auto byte = [&](std::size_t k) { return static_cast<char32_t>(static_cast<unsigned char>(text[k])); };
  const char32_t lead = byte(i);
  if (lead < 0x80) {
    ++i;
    return lead;
  }
  const auto tail = [&](std::size_t k) { return byte(i + k) & 0x3FU; };
  char32_t point = 0;
  if (lead < 0xE0) {
    point = (lead & 0x1FU) << 6U | tail(1);
    i += 2;
  } else if (lead < 0xF0) {
    point = (lead & 0x0FU) << 12U | tail(1) << 6U | tail(2);
    i += 3;
  } else {
    point = (lead & 0x07U) << 18U | tail(1) << 12U | tail(2) << 6U | tail(3);
    i += 4;
  }
  return point;
}

/// The code point that ends before byte `i` > 0; `i` moves to where it begins.
char32_t previous(std::string_view text, std::size_t& i);

/// UTF-8 of one code point, without an allocation.
class Utf8 {
 public:
  explicit Utf8(char32_t c);
  operator std::string_view() const { return {bytes_.data(), size_}; }  // NOLINT(google-explicit-constructor)

 private:
  std::array<char, 4> bytes_{};
  std::size_t size_ = 0;
};

void append(std::string& text, char32_t c);

/// Sets of code points that the parts of a tokenizer ask for. Each follows the Unicode version that the
/// reference (Hugging Face tokenizers 0.23.3) has there, as told in unicode.cpp.
enum Class : std::uint16_t {
  white_space = 1U << 0U,       // White_Space, for cutting, stripping and \s alike
  bert_punctuation = 1U << 1U,  // ASCII symbols and general category P, Unicode 8
  word = 1U << 2U,              // \w of "Whitespace" and of single_word, Unicode 16
  number = 1U << 3U,            // N of "Digits", Unicode 17
  regex_letter = 1U << 4U,      // \p{L} of regular expressions, Unicode 16
  regex_number = 1U << 5U,      // \p{N} of regular expressions, Unicode 16
  bert_mark = 1U << 6U,         // Mn that BertNormalizer's strip_accents drops, Unicode 8
  bert_dropped = 1U << 7U,      // what BertNormalizer's clean_text drops, Unicode 8
  cjk = 1U << 8U,               // what BertNormalizer puts spaces round
  mark = 1U << 9U,              // M that StripAccents drops, Unicode 9
  regex_capital = 1U << 10U,    // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], Unicode 16
  regex_small = 1U << 11U,      // [\p{Ll}\p{Lm}\p{Lo}\p{M}], Unicode 16
};

/// The bits of Class that hold for every code point; made once, from ICU.
const CodePointTable<std::uint16_t>& classes();

inline bool is(char32_t c, Class of) {
  return (classes()(c) & of) != 0;
}
inline bool is_white_space(char32_t c) {
  return is(c, white_space);
}
inline bool is_bert_punctuation(char32_t c) {
  return is(c, bert_punctuation);
}
inline bool is_word(char32_t c) {
  return is(c, word);
}
inline bool is_number(char32_t c) {
  return is(c, number);
}

/// Lowercase of a code point by itself, Unicode 17. U+0130 alone becomes two, U+0069 U+0307: the first is
/// given.
char32_t to_lower(char32_t c);
inline constexpr char32_t dotted_capital_i = 0x130;
inline constexpr char32_t dot_above = 0x307;

/// Was the code point assigned in this version of Unicode?
bool is_as_old_as(char32_t c, unsigned version);

/// General category in Unicode 16 (a UCharCategory of ICU).
std::int8_t category(char32_t c);

/// Code points whose category in Unicode 16 is not the one that ICU 72 (Unicode 15) gives.
struct CategoryRange {
  char32_t first;
  char32_t last;
  std::int8_t category;
};
const std::vector<CategoryRange>& later_categories();

}  // namespace attnctl::unicode
