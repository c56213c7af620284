#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <unicode/utf8.h>

namespace attnctl::tokenizer::unicode {

inline constexpr std::size_t kCodePoints = 0x110000;

/// A table with a value for every code point. Code points are grouped into blocks of 256. A block that is
/// equal to the block before it is not stored again.
template <typename T>
class CodePointTable {
 public:
  CodePointTable() = default;
  /// `all` has one value for each code point, kCodePoints in total.
  explicit CodePointTable(const std::vector<T>& all) {
    block_.reserve(kCodePoints / kBlock);
    for (std::size_t begin = 0; begin < kCodePoints; begin += kBlock) {
      const auto block = std::span(all).subspan(begin, kBlock);
      const bool same = !values_.empty() && std::ranges::equal(block, std::span(values_).last(kBlock));
      if (!same) values_.insert(values_.end(), block.begin(), block.end());
      block_.push_back(static_cast<std::uint16_t>(values_.size() / kBlock - 1));
    }
  }

  /// Returns the value of `c`, which must be at most U+10FFFF.
  [[nodiscard]] T operator()(char32_t c) const {
    return values_[std::size_t{block_[c >> kBlockBits]} << kBlockBits | (c & (kBlock - 1))];
  }

 private:
  static constexpr unsigned kBlockBits = 8;
  static constexpr std::size_t kBlock = std::size_t{1} << kBlockBits;
  std::vector<std::uint16_t> block_;  // [kCodePoints / kBlock], index of each block in values_
  std::vector<T> values_;             // [stored blocks * kBlock]
};

/// Returns the code point that starts at byte `i` of well-formed UTF-8 and moves `i` to the next code point.
inline char32_t next(std::string_view text, std::size_t& i) {
  UChar32 c = 0;
  U8_NEXT_UNSAFE(text, i, c);
  return static_cast<char32_t>(c);
}

/// Returns the code point before byte `i`, which must not be 0, and moves `i` to its first byte.
inline char32_t previous(std::string_view text, std::size_t& i) {
  do {
    --i;
  } while (U8_IS_TRAIL(text[i]));
  std::size_t at = i;
  return next(text, at);
}

/// Returns the number of code points of well-formed UTF-8.
inline std::size_t count_code_points(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return U8_IS_TRAIL(c); }));
}

inline bool is_ascii(char byte) {
  return static_cast<unsigned char>(byte) < 0x80;
}

inline std::size_t ascii_end(std::string_view text, std::size_t begin, std::size_t end) {
  while (begin < end && is_ascii(text[begin])) ++begin;
  return begin;
}

/// The UTF-8 encoding of one code point. Does not allocate memory.
class Utf8 {
 public:
  constexpr explicit Utf8(char32_t c) { U8_APPEND_UNSAFE(bytes_, size_, c); }
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator std::string_view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, 4> bytes_{};
  std::uint8_t size_ = 0;
};

/// Sets of code points that tokenizers use, one bit each. The reference implementation (Hugging Face
/// tokenizers 0.23.3) uses several libraries, each with its own version of Unicode.
enum Class : std::uint16_t {
  white_space = 1U << 0U,     // property White_Space
  punctuation = 1U << 1U,     // ASCII symbols and general category P, Unicode 8
  word = 1U << 2U,            // \w of the pre-tokenizer Whitespace and of single_word, Unicode 16
  number = 1U << 3U,          // general category N in the pre-tokenizer Digits, Unicode 17
  regex_letter = 1U << 4U,    // \p{L} of regular expressions, Unicode 16
  regex_number = 1U << 5U,    // \p{N} of regular expressions, Unicode 16
  bert_mark = 1U << 6U,       // general category Mn, removed by strip_accents of BertNormalizer, Unicode 8
  bert_dropped = 1U << 7U,    // removed by clean_text of BertNormalizer, Unicode 8
  cjk = 1U << 8U,             // ideographs, which BertNormalizer surrounds with spaces
  mark = 1U << 9U,            // general category M, removed by the normalizer StripAccents, Unicode 9
  regex_capital = 1U << 10U,  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], Unicode 16
  regex_small = 1U << 11U,    // [\p{Ll}\p{Lm}\p{Lo}\p{M}], Unicode 16
};

const CodePointTable<std::uint16_t>& classes();

inline bool is(char32_t c, Class set) {
  return (classes()(c) & set) != 0;
}

/// Returns the byte position after the white space that starts at `begin`; `begin` if there is none.
std::size_t white_space_end(std::string_view text, std::size_t begin);
/// Returns where the white space before `end` begins; `end` if there is none. Does not search before `limit`.
std::size_t white_space_begin(std::string_view text, std::size_t end, std::size_t limit = 0);

/// Returns the lowercase of `c` (Unicode 17). For U+0130, whose lowercase is U+0069 U+0307, returns U+0069.
char32_t to_lower(char32_t c);
inline constexpr char32_t kDottedCapitalI = 0x130;
inline constexpr char32_t kDotAbove = 0x307;

/// Returns whether a code point is assigned in major version `version` of Unicode.
bool is_as_old_as(char32_t c, unsigned version);

/// Returns the end of the extended grapheme cluster that starts at byte `begin` of well-formed UTF-8, as if
/// the text ended at `end`, which must be larger than `begin`. The rules are those of UAX #29 of Unicode 17
/// without GB12 and GB13 (pairs of regional indicators).
std::size_t cluster_end(std::string_view text, std::size_t begin, std::size_t end);

/// A range of code points whose properties in Unicode 16 differ from ICU 72 (Unicode 15).
struct LaterRange {
  char32_t first;
  char32_t last;
  std::int8_t category;          // general category in Unicode 16, as a UCharCategory
  std::int32_t script = -1;      // a UScriptCode; -1: unchanged, or unknown to ICU 72
  bool alphabetic_mark = false;  // true for marks with the property Alphabetic
};
std::span<const LaterRange> later_ranges();

/// A character of a normalized text. The character replaces 1 - `change` characters of the old text and has
/// the origin of the first of these. If `change` is 1, the character is inserted and has the origin of the
/// old character before it.
struct ChangedCharacter {
  char32_t c = 0;
  int change = 0;
};

/// One of the normalization forms NFC, NFD, NFKC and NFKD of Unicode 9, the version that Hugging Face
/// tokenizers use. Characters that are newer than Unicode 9 do not change. A text is normalized run by run. A
/// run is a character together with the following characters for which joins() returns true.
class NormalForm {
 public:
  enum Kind { nfc, nfd, nfkc, nfkd };
  template <Kind kind>
  static const NormalForm& get() {
    static const NormalForm form(kind);
    return form;
  }

  /// Returns whether normalizing changes a run that has only the character `c`.
  [[nodiscard]] bool changes(char32_t c) const { return (bits_(c) & kChanges) != 0; }
  /// Returns whether `c` belongs to the same run as the character before it.
  [[nodiscard]] bool joins(char32_t c) const { return (bits_(c) & kJoins) != 0; }

  /// Normalizes a run of characters. Replaces the content of `out`.
  void apply(std::span<const char32_t> run, std::vector<ChangedCharacter>& out) const;

 private:
  explicit NormalForm(Kind kind);
  static constexpr std::uint8_t kChanges = 1;
  static constexpr std::uint8_t kJoins = 2;
  Kind kind_;
  CodePointTable<std::uint8_t> bits_;
};

}  // namespace attnctl::tokenizer::unicode
