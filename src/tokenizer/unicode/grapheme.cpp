#include "tokenizer/unicode/grapheme.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::unicode {
namespace {

// The properties of a code point: its UGraphemeClusterBreak in ICU, and two flags.
constexpr std::uint8_t kPictographic = 0x80;  // Extended_Pictographic
constexpr std::uint8_t kConsonant = 0x40;     // of a conjunct
constexpr std::uint8_t kBreakBits = 0x3F;

/// A character that joins two consonants of a script to a conjunct (GB9c).
struct Linker {
  char32_t c;
  UScriptCode script;
  bool with_vowels;  // independent vowels count as consonants
};
constexpr Linker kLinkers[] = {
    {0x94D, USCRIPT_DEVANAGARI, false},  {0x9CD, USCRIPT_BENGALI, false},   {0xACD, USCRIPT_GUJARATI, false},
    {0xB4D, USCRIPT_ORIYA, false},       {0xC4D, USCRIPT_TELUGU, false},    {0xD4D, USCRIPT_MALAYALAM, false},
    {0x1039, USCRIPT_MYANMAR, true},     {0x17D2, USCRIPT_KHMER, true},     {0x1A60, USCRIPT_LANNA, true},
    {0x1B44, USCRIPT_BALINESE, false},   {0x1BAB, USCRIPT_SUNDANESE, true}, {0xA9C0, USCRIPT_JAVANESE, false},
    {0xAAF6, USCRIPT_MEITEI_MAYEK, true}};

bool is_linker(char32_t c) {
  return std::any_of(std::begin(kLinkers), std::end(kLinkers), [c](const Linker& x) { return x.c == c; });
}

bool is_consonant(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  const std::int32_t of = u_getIntPropertyValue(point, UCHAR_INDIC_SYLLABIC_CATEGORY);
  const bool vowel = of == U_INSC_VOWEL_INDEPENDENT;
  if ((of != U_INSC_CONSONANT && !vowel) || u_charType(point) != U_OTHER_LETTER) return false;
  if (c == 0x1B0B || c == 0x1B0C) return true;  // Balinese vocalic r, the only such vowel
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(point, &status);
  return std::any_of(std::begin(kLinkers), std::end(kLinkers),
                     [&](const Linker& x) { return x.script == script && (!vowel || x.with_vowels); });
}

// Code points that Unicode 17 has as Extend: new marks, and spacing marks of Unicode 15.
constexpr std::pair<char32_t, char32_t> kLaterExtend[] = {
    {0xCC0, 0xCC0},   {0xCC7, 0xCC8},   {0xCCA, 0xCCB},   {0x1715, 0x1715}, {0x1734, 0x1734},
    {0x1ACF, 0x1ADD}, {0x1AE0, 0x1AEB}, {0x1B3B, 0x1B3B}, {0x1B3D, 0x1B3D}, {0x1B43, 0x1B44},
    {0x1BAA, 0x1BAA}, {0x1BF2, 0x1BF3}, {0xA953, 0xA953}, {0xA9C0, 0xA9C0}};

std::uint8_t properties(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  auto value = static_cast<std::uint8_t>(u_getIntPropertyValue(point, UCHAR_GRAPHEME_CLUSTER_BREAK));
  if (is_consonant(c)) value |= kConsonant;
  if (u_hasBinaryProperty(point, UCHAR_EXTENDED_PICTOGRAPHIC) != 0) value |= kPictographic;
  return value;
}

const CodePointTable<std::uint8_t>& break_table() {
  static const CodePointTable<std::uint8_t> table = [] {
    std::vector<std::uint8_t> all(kCodePoints, U_GCB_OTHER);
    // The ranges in between hold ideographs or nothing.
    for (char32_t c = 0; c < 0x3400; ++c) all[c] = properties(c);
    for (char32_t c = 0xA000; c < 0x20000; ++c) all[c] = properties(c);
    for (char32_t c = 0xE0000; c < 0xE1000; ++c) all[c] = properties(c);
    for (const auto& [first, last] : kLaterExtend) {
      for (char32_t c = first; c <= last; ++c) all[c] = U_GCB_EXTEND;
    }
    for (const LaterRange& later : later_ranges()) {
      const bool extends = later.category == U_NON_SPACING_MARK || later.category == U_COMBINING_SPACING_MARK;
      for (char32_t c = later.first; extends && c <= later.last; ++c) all[c] = U_GCB_EXTEND;
    }
    return CodePointTable<std::uint8_t>(all);
  }();
  return table;
}

bool joins_hangul(std::uint8_t before, std::uint8_t after) {
  switch (before) {
    case U_GCB_L:
      return after == U_GCB_L || after == U_GCB_V || after == U_GCB_LV || after == U_GCB_LVT;
    case U_GCB_LV:
    case U_GCB_V:
      return after == U_GCB_V || after == U_GCB_T;
    case U_GCB_LVT:
    case U_GCB_T:
      return after == U_GCB_T;
    default:
      return false;
  }
}

bool is_control(std::uint8_t kind) {
  return kind == U_GCB_CONTROL || kind == U_GCB_CR || kind == U_GCB_LF;
}

/// The state of a cluster before the next code point.
class Cluster {
 public:
  Cluster(char32_t c, std::uint8_t value) { add(c, value); }

  /// Returns whether a code point with these properties belongs to the cluster.
  [[nodiscard]] bool joins(std::uint8_t value) const {
    const auto next = static_cast<std::uint8_t>(value & kBreakBits);
    if (kind_ == U_GCB_CR && next == U_GCB_LF) return true;
    if (is_control(kind_) || is_control(next)) return false;
    return next == U_GCB_EXTEND || next == U_GCB_ZWJ || next == U_GCB_SPACING_MARK ||
           kind_ == U_GCB_PREPEND || joins_hangul(kind_, next) || (linked_ && (value & kConsonant) != 0) ||
           (emoji_ && kind_ == U_GCB_ZWJ && (value & kPictographic) != 0);
  }

  void add(char32_t c, std::uint8_t value) {
    kind_ = static_cast<std::uint8_t>(value & kBreakBits);
    const bool extends = kind_ == U_GCB_EXTEND || kind_ == U_GCB_ZWJ;
    emoji_ = (value & kPictographic) != 0 || (emoji_ && extends);
    const bool in_conjunct = consonant_ && extends && c != kZeroWidthNonJoiner;
    linked_ = in_conjunct && (linked_ || is_linker(c));
    consonant_ = (value & kConsonant) != 0 || in_conjunct;
  }

 private:
  static constexpr char32_t kZeroWidthNonJoiner = 0x200C;
  std::uint8_t kind_ = U_GCB_OTHER;
  bool emoji_ = false;      // Extended_Pictographic (Extend | ZWJ)*
  bool consonant_ = false;  // Consonant (Extend | ZWJ)*
  bool linked_ = false;     // the same with a linker
};

}  // namespace

std::size_t cluster_end(std::string_view text, std::size_t begin, std::size_t end) {
  const CodePointTable<std::uint8_t>& table = break_table();
  std::size_t at = begin;
  const char32_t first = next(text, at);
  Cluster cluster(first, table(first));
  for (std::size_t after = at; at < end; at = after) {
    const char32_t c = next(text, after);
    const std::uint8_t value = table(c);
    if (!cluster.joins(value)) break;
    cluster.add(c, value);
  }
  return at;
}

}  // namespace attnctl::unicode
