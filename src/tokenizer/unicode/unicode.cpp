#include "tokenizer/unicode/unicode.hpp"

#include <iterator>
#include <utility>

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uscript.h>
#include <unicode/utf16.h>

#include "base/error.hpp"

namespace attnctl::tokenizer::unicode {
namespace {

/// A range of code points that are added to a class (or removed from it, if `is_member` is false) after
/// set_bits(). Many of these ranges are needed because set_bits() makes a class of an older version of
/// Unicode from the categories in ICU 72, and some characters had another category in the older version.
struct ClassException {
  char32_t first;
  char32_t last;
  Class of;
  bool is_member = true;
};
// clang-format off
constexpr ClassException kExceptions[] = {
    // ASCII symbols, and characters whose category has changed to So or Mn.
    {0x21, 0x2F, punctuation}, {0x3A, 0x40, punctuation}, {0x5B, 0x60, punctuation},
    {0x7B, 0x7E, punctuation}, {0x166D, 0x166D, punctuation}, {0x111C9, 0x111C9, punctuation},
    // A mark whose category has changed to Mc, and characters that have become Mn.
    {0x1734, 0x1734, bert_mark}, {0x1885, 0x1886, bert_mark, false}, {0xA9BD, 0xA9BD, bert_mark, false},
    {0x111C9, 0x111C9, bert_mark, false},
    // Marks whose category has changed to Lo, and a character that has become a mark.
    {0x1CF2, 0x1CF3, mark}, {0x111C9, 0x111C9, mark, false},
    // Characters that were added in Unicode 17.
    {0x11DE0, 0x11DE9, number}, {0x16FF4, 0x16FF6, number},
    // Hugging Face tokenizers leave out the ideographs 2B820-2B91F.
    {0x3400, 0x4DBF, cjk}, {0x4E00, 0x9FFF, cjk}, {0xF900, 0xFAFF, cjk}, {0x20000, 0x2A6DF, cjk},
    {0x2A700, 0x2B81F, cjk}, {0x2B920, 0x2CEAF, cjk}, {0x2F800, 0x2FA1F, cjk},
    {0x200C, 0x200D, word}, {'\t', '\n', bert_dropped, false},
    {'\r', '\r', bert_dropped, false}, {0xFFFD, 0xFFFD, bert_dropped},
};
// clang-format on

/// Returns the classes that contain all code points of a category, whose bit is `mask` (U_GC_..._MASK).
std::uint16_t of_category(std::uint32_t mask) {
  constexpr std::uint32_t kWord = U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_NL_MASK | U_GC_PC_MASK;
  std::uint16_t bits = 0;
  if ((mask & kWord) != 0) bits |= word;
  if ((mask & U_GC_L_MASK) != 0) bits |= regex_letter;
  if ((mask & (U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK)) != 0) bits |= regex_capital | regex_small;
  if ((mask & (U_GC_LU_MASK | U_GC_LT_MASK)) != 0) bits |= regex_capital;
  if ((mask & U_GC_LL_MASK) != 0) bits |= regex_small;
  if ((mask & U_GC_N_MASK) != 0) bits |= number | regex_number;
  return bits;
}

using Bits = std::vector<std::uint16_t>;  // [kCodePoints], Class bits of each code point

/// Sets the class bits of the code points [first, limit), which must all have the category `mask`.
void set_bits(Bits& bits, char32_t first, char32_t limit, std::uint32_t mask) {
  constexpr std::uint32_t kDropped = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
  std::fill(bits.begin() + first, bits.begin() + limit, of_category(mask));
  // The classes below also depend on other properties, such as the version that added the character.
  if ((mask & (U_GC_P_MASK | U_GC_M_MASK | U_GC_Z_MASK | U_GC_SO_MASK | kDropped)) == 0) return;
  for (char32_t c = first; c < limit; ++c) {
    const bool in_8 = is_as_old_as(c, 8);
    if (in_8 && (mask & U_GC_P_MASK) != 0) bits[c] |= punctuation;
    if (in_8 && (mask & U_GC_MN_MASK) != 0) bits[c] |= bert_mark;
    if (in_8 && (mask & kDropped) != 0) bits[c] |= bert_dropped;
    if ((mask & U_GC_M_MASK) != 0 && is_as_old_as(c, 9)) bits[c] |= mark;
    if (u_isUWhiteSpace(static_cast<UChar32>(c)) != 0) bits[c] |= white_space;
    // Letters in circles and squares have the property Alphabetic and therefore match \w.
    if ((mask & U_GC_SO_MASK) != 0 && u_isUAlphabetic(static_cast<UChar32>(c)) != 0) bits[c] |= word;
  }
}

Bits make_bits() {
  Bits bits(kCodePoints, 0);
  u_enumCharTypes(
      [](const void* context, UChar32 first, UChar32 limit, UCharCategory category) -> UBool {
        set_bits(*static_cast<Bits*>(const_cast<void*>(context)), static_cast<char32_t>(first),
                 static_cast<char32_t>(limit), U_MASK(category));
        return true;
      },
      &bits);
  for (const LaterRange& later : later_ranges()) {
    for (char32_t c = later.first; c <= later.last; ++c) bits[c] |= of_category(U_MASK(later.category));
  }
  for (const ClassException& exception : kExceptions) {
    for (char32_t c = exception.first; c <= exception.last; ++c) {
      const int set = bits[c] | exception.of;
      bits[c] = static_cast<std::uint16_t>(exception.is_member ? set : set ^ exception.of);
    }
  }
  return bits;
}

// Lowercase mappings of Unicode 16 and 17: for i < count, the lowercase of first + i is lower + i.
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

// clang-format off
/// Short names of the general categories that kLaterRanges uses.
enum Category : std::int8_t {
  Lu = U_UPPERCASE_LETTER, Ll = U_LOWERCASE_LETTER, Lm = U_MODIFIER_LETTER, Lo = U_OTHER_LETTER,
  Mn = U_NON_SPACING_MARK, Mc = U_COMBINING_SPACING_MARK, Nd = U_DECIMAL_DIGIT_NUMBER,
  Pd = U_DASH_PUNCTUATION, Po = U_OTHER_PUNCTUATION, Sm = U_MATH_SYMBOL, So = U_OTHER_SYMBOL,
};

constexpr LaterRange kLaterRanges[] = {
    {0x897, 0x897, Mn, USCRIPT_ARABIC, true}, {0x1B4E, 0x1B4F, Po, USCRIPT_BALINESE},
    {0x1B7F, 0x1B7F, Po, USCRIPT_BALINESE}, {0x1C89, 0x1C89, Lu, USCRIPT_CYRILLIC},
    {0x1C8A, 0x1C8A, Ll, USCRIPT_CYRILLIC}, {0x2427, 0x2429, So, USCRIPT_COMMON},
    {0x2FFC, 0x2FFF, So, USCRIPT_COMMON}, {0x31E4, 0x31E5, So, USCRIPT_COMMON},
    {0x31EF, 0x31EF, So, USCRIPT_COMMON}, {0xA7CB, 0xA7CC, Lu, USCRIPT_LATIN},
    {0xA7CD, 0xA7CD, Ll, USCRIPT_LATIN}, {0xA7DA, 0xA7DA, Lu, USCRIPT_LATIN},
    {0xA7DB, 0xA7DB, Ll, USCRIPT_LATIN}, {0xA7DC, 0xA7DC, Lu, USCRIPT_LATIN}, {0x105C0, 0x105F3, Lo},
    {0x10D40, 0x10D49, Nd}, {0x10D4A, 0x10D4D, Lo}, {0x10D4E, 0x10D4E, Lm}, {0x10D4F, 0x10D4F, Lo},
    {0x10D50, 0x10D65, Lu}, {0x10D69, 0x10D69, Mn, -1, true}, {0x10D6A, 0x10D6D, Mn}, {0x10D6E, 0x10D6E, Pd},
    {0x10D6F, 0x10D6F, Lm}, {0x10D70, 0x10D85, Ll}, {0x10D8E, 0x10D8F, Sm},
    {0x10EC2, 0x10EC4, Lo, USCRIPT_ARABIC}, {0x10EFC, 0x10EFC, Mn, USCRIPT_ARABIC, true},
    {0x11380, 0x11389, Lo}, {0x1138B, 0x1138B, Lo}, {0x1138E, 0x1138E, Lo}, {0x11390, 0x113B5, Lo},
    {0x113B7, 0x113B7, Lo}, {0x113B8, 0x113BA, Mc, -1, true}, {0x113BB, 0x113C0, Mn, -1, true},
    {0x113C2, 0x113C2, Mc, -1, true}, {0x113C5, 0x113C5, Mc, -1, true}, {0x113C7, 0x113CA, Mc, -1, true},
    {0x113CC, 0x113CD, Mc, -1, true}, {0x113CE, 0x113CE, Mn}, {0x113CF, 0x113CF, Mc}, {0x113D0, 0x113D0, Mn},
    {0x113D1, 0x113D1, Lo}, {0x113D2, 0x113D2, Mn}, {0x113D3, 0x113D3, Lo}, {0x113D4, 0x113D5, Po},
    {0x113D7, 0x113D8, Po}, {0x113E1, 0x113E2, Mn}, {0x116D0, 0x116E3, Nd, USCRIPT_MYANMAR},
    {0x1171E, 0x1171E, Mc, -1, true}, {0x11BC0, 0x11BE0, Lo}, {0x11BE1, 0x11BE1, Po}, {0x11BF0, 0x11BF9, Nd},
    {0x11F5A, 0x11F5A, Mn, USCRIPT_KAWI}, {0x13460, 0x143FA, Lo, USCRIPT_EGYPTIAN_HIEROGLYPHS},
    {0x16100, 0x1611D, Lo}, {0x1611E, 0x16129, Mn, -1, true}, {0x1612A, 0x1612C, Mc, -1, true},
    {0x1612D, 0x1612E, Mn, -1, true}, {0x1612F, 0x1612F, Mn}, {0x16130, 0x16139, Nd}, {0x16D40, 0x16D42, Lm},
    {0x16D43, 0x16D6A, Lo}, {0x16D6B, 0x16D6C, Lm}, {0x16D6D, 0x16D6F, Po}, {0x16D70, 0x16D79, Nd},
    {0x18CFF, 0x18CFF, Lo, USCRIPT_KHITAN_SMALL_SCRIPT}, {0x1CC00, 0x1CCEF, So, USCRIPT_COMMON},
    {0x1CCF0, 0x1CCF9, Nd, USCRIPT_COMMON}, {0x1CD00, 0x1CEB3, So, USCRIPT_COMMON}, {0x1E5D0, 0x1E5ED, Lo},
    {0x1E5EE, 0x1E5EF, Mn}, {0x1E5F0, 0x1E5F0, Lo}, {0x1E5F1, 0x1E5FA, Nd}, {0x1E5FF, 0x1E5FF, Po},
    {0x1F8B2, 0x1F8BB, So, USCRIPT_COMMON}, {0x1F8C0, 0x1F8C1, So, USCRIPT_COMMON},
    {0x1FA89, 0x1FA89, So, USCRIPT_COMMON}, {0x1FA8F, 0x1FA8F, So, USCRIPT_COMMON},
    {0x1FABE, 0x1FABE, So, USCRIPT_COMMON}, {0x1FAC6, 0x1FAC6, So, USCRIPT_COMMON},
    {0x1FADC, 0x1FADC, So, USCRIPT_COMMON}, {0x1FADF, 0x1FADF, So, USCRIPT_COMMON},
    {0x1FAE9, 0x1FAE9, So, USCRIPT_COMMON}, {0x1FBCB, 0x1FBEF, So, USCRIPT_COMMON},
    {0x2EBF0, 0x2EE5D, Lo, USCRIPT_HAN},
};
// clang-format on

// Extended grapheme clusters

// The properties of a code point in one byte: its UGraphemeClusterBreak in ICU (kBreakBits) and two flags.
constexpr std::uint8_t kPictographic = 0x80;  // Extended_Pictographic
constexpr std::uint8_t kConsonant = 0x40;     // consonant that can be part of a conjunct (GB9c)
constexpr std::uint8_t kBreakBits = 0x3F;

/// A character that joins two consonants of its script into a conjunct (rule GB9c of UAX #29).
struct Linker {
  char32_t c;
  UScriptCode script;
  bool with_vowels;  // true if independent vowels of the script count as consonants
};
constexpr Linker kLinkers[] = {
    {0x94D, USCRIPT_DEVANAGARI, false},  {0x9CD, USCRIPT_BENGALI, false},   {0xACD, USCRIPT_GUJARATI, false},
    {0xB4D, USCRIPT_ORIYA, false},       {0xC4D, USCRIPT_TELUGU, false},    {0xD4D, USCRIPT_MALAYALAM, false},
    {0x1039, USCRIPT_MYANMAR, true},     {0x17D2, USCRIPT_KHMER, true},     {0x1A60, USCRIPT_LANNA, true},
    {0x1B44, USCRIPT_BALINESE, false},   {0x1BAB, USCRIPT_SUNDANESE, true}, {0xA9C0, USCRIPT_JAVANESE, false},
    {0xAAF6, USCRIPT_MEITEI_MAYEK, true}};

bool is_consonant(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  const std::int32_t of = u_getIntPropertyValue(point, UCHAR_INDIC_SYLLABIC_CATEGORY);
  const bool vowel = of == U_INSC_VOWEL_INDEPENDENT;
  if ((of != U_INSC_CONSONANT && !vowel) || u_charType(point) != U_OTHER_LETTER) return false;
  if (c == 0x1B0B || c == 0x1B0C) return true;  // Balinese vocalic r counts as a consonant
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(point, &status);
  return std::ranges::any_of(
      kLinkers, [&](const Linker& x) { return x.script == script && (!vowel || x.with_vowels); });
}

// Further code points with Grapheme_Cluster_Break=Extend in Unicode 17 but not in ICU 72 (Unicode 15): new
// marks that are not in kLaterRanges, and marks that were SpacingMark.
constexpr std::pair<char32_t, char32_t> kLaterExtend[] = {
    {0xCC0, 0xCC0},   {0xCC7, 0xCC8},   {0xCCA, 0xCCB},   {0x1715, 0x1715}, {0x1734, 0x1734},
    {0x1ACF, 0x1ADD}, {0x1AE0, 0x1AEB}, {0x1B3B, 0x1B3B}, {0x1B3D, 0x1B3D}, {0x1B43, 0x1B44},
    {0x1BAA, 0x1BAA}, {0x1BF2, 0x1BF3}, {0xA953, 0xA953}, {0xA9C0, 0xA9C0}};

std::uint8_t properties(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  const bool pictographic = u_hasBinaryProperty(point, UCHAR_EXTENDED_PICTOGRAPHIC) != 0;
  return static_cast<std::uint8_t>(u_getIntPropertyValue(point, UCHAR_GRAPHEME_CLUSTER_BREAK) |
                                   (is_consonant(c) ? kConsonant : 0) | (pictographic ? kPictographic : 0));
}

const CodePointTable<std::uint8_t>& break_table() {
  static const CodePointTable<std::uint8_t> table = [] {
    std::vector<std::uint8_t> all(kCodePoints, U_GCB_OTHER);
    // Code points outside of these ranges, such as ideographs, have the value U_GCB_OTHER and no flags.
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
  if (before == U_GCB_L)
    return after == U_GCB_L || after == U_GCB_V || after == U_GCB_LV || after == U_GCB_LVT;
  if (before == U_GCB_LV || before == U_GCB_V) return after == U_GCB_V || after == U_GCB_T;
  return (before == U_GCB_LVT || before == U_GCB_T) && after == U_GCB_T;
}

bool is_control(std::uint8_t kind) {
  return kind == U_GCB_CONTROL || kind == U_GCB_CR || kind == U_GCB_LF;
}

/// The part of a grapheme cluster that was read so far, as far as the rules of UAX #29 need it.
class Cluster {
 public:
  Cluster(char32_t c, std::uint8_t value) { add(c, value); }

  /// Returns whether the next code point, which has the properties `value`, belongs to the cluster.
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
    linked_ = in_conjunct && (linked_ || std::ranges::find(kLinkers, c, &Linker::c) != std::end(kLinkers));
    consonant_ = (value & kConsonant) != 0 || in_conjunct;
  }

 private:
  static constexpr char32_t kZeroWidthNonJoiner = 0x200C;
  std::uint8_t kind_ = U_GCB_OTHER;
  bool emoji_ = false;      // the cluster ends in Extended_Pictographic (Extend | ZWJ)*
  bool consonant_ = false;  // the cluster ends in Consonant (Extend | ZWJ)*, without U+200C
  bool linked_ = false;     // as `consonant_`, and a linker follows the consonant
};

// Normalization

// The Unicode version of the normalization in Hugging Face tokenizers. By the stability policy of Unicode,
// the normal forms of characters in this version have not changed since. For later characters, Hugging Face
// tokenizers use no mapping and the combining class 0.
constexpr unsigned kReferenceVersion = 9;
constexpr std::int32_t kLongestDecomposition = 64;  // in UTF-16 units; the longest decomposition has 18

using Instance = const UNormalizer2* (*)(UErrorCode*);

const UNormalizer2* instance(Instance get) {
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* normalizer = get(&status);
  if (U_FAILURE(status)) fail(Status::environment, "ICU has no normalization data: {}", u_errorName(status));
  return normalizer;
}

std::uint8_t combining_class(char32_t c) {
  if (c < 0x300) return 0;
  const std::uint8_t value = u_getCombiningClass(static_cast<UChar32>(c));
  return value != 0 && is_as_old_as(c, kReferenceVersion) ? value : 0;
}

void decompose(const UNormalizer2* normalizer, char32_t c, std::vector<ChangedCharacter>& out) {
  std::array<UChar, kLongestDecomposition> units{};
  UErrorCode status = U_ZERO_ERROR;
  const std::int32_t size = unorm2_getDecomposition(normalizer, static_cast<UChar32>(c), units.data(),
                                                    kLongestDecomposition, &status);
  if (size < 0 || U_FAILURE(status) || !is_as_old_as(c, kReferenceVersion)) {
    out.push_back({c, 0});
    return;
  }
  for (std::int32_t i = 0; i < size;) {
    const int change = i == 0 ? 0 : 1;
    UChar32 part = 0;
    U16_NEXT(units, i, size, part);
    out.push_back({static_cast<char32_t>(part), change});
  }
}

/// Sorts each sequence of marks between two characters of combining class 0 by combining class.
void order_marks(std::vector<ChangedCharacter>& run) {
  const auto is_starter = [](const ChangedCharacter& x) { return combining_class(x.c) == 0; };
  for (auto first = run.begin(); first != run.end();) {
    first = std::find_if_not(first, run.end(), is_starter);
    const auto last = std::find_if(first, run.end(), is_starter);
    std::stable_sort(first, last, [](const ChangedCharacter& a, const ChangedCharacter& b) {
      return combining_class(a.c) < combining_class(b.c);
    });
    first = last;
  }
}

void compose(std::vector<ChangedCharacter>& run) {
  const UNormalizer2* normalizer = instance(unorm2_getNFCInstance);
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t kept = 0;
  std::size_t starter = kNone;  // index of the last character of combining class 0
  int last_class = 0;           // combining class of the last mark kept after `starter`; 0: none
  for (std::size_t i = 0; i < run.size(); ++i) {
    const ChangedCharacter current = run[i];
    const int mark_class = combining_class(current.c);
    // A mark of the same or a higher class between `starter` and this character prevents composing them.
    const bool reaches = starter != kNone && (last_class == 0 || last_class < mark_class);
    const UChar32 pair = reaches ? unorm2_composePair(normalizer, static_cast<UChar32>(run[starter].c),
                                                      static_cast<UChar32>(current.c))
                                 : -1;
    if (pair >= 0 && is_as_old_as(static_cast<char32_t>(pair), kReferenceVersion)) {
      run[starter] = {static_cast<char32_t>(pair), run[starter].change + current.change - 1};
      continue;
    }
    if (mark_class == 0) starter = kept;
    last_class = mark_class;
    run[kept++] = current;
  }
  run.resize(kept);
}

}  // namespace

std::span<const LaterRange> later_ranges() {
  return kLaterRanges;
}

std::size_t white_space_end(std::string_view text, std::size_t begin) {
  for (std::size_t i = begin; i < text.size() && is(next(text, i), white_space);) begin = i;
  return begin;
}

std::size_t white_space_begin(std::string_view text, std::size_t end, std::size_t limit) {
  for (std::size_t i = end; i > limit && is(previous(text, i), white_space);) end = i;
  return end;
}

const CodePointTable<std::uint16_t>& classes() {
  static const CodePointTable<std::uint16_t> table(make_bits());
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

NormalForm::NormalForm(Kind kind) : kind_(kind) {
  constexpr std::pair<Instance, UProperty> kForms[] = {
      {unorm2_getNFCInstance, UCHAR_NFC_QUICK_CHECK},
      {unorm2_getNFDInstance, UCHAR_NFD_QUICK_CHECK},
      {unorm2_getNFKCInstance, UCHAR_NFKC_QUICK_CHECK},
      {unorm2_getNFKDInstance, UCHAR_NFKD_QUICK_CHECK}};  // in the order of Kind
  const auto& [get, quick_check] = kForms[kind];
  const UNormalizer2* const normalizer = instance(get);
  std::vector<std::uint8_t> all(kCodePoints, 0);
  constexpr std::uint32_t kUnchanged = U_GC_CN_MASK | U_GC_CC_MASK | U_GC_CO_MASK | U_GC_CS_MASK;
  for (char32_t c = 0; c < 0x30000; ++c) {
    // Normalization does not change the characters of these large blocks, such as ideographs.
    if ((c >= 0x3400 && c < 0xA000) || (c >= 0x17000 && c < 0x1B000) || (c >= 0x20000 && c < 0x2F800))
      continue;
    const auto point = static_cast<UChar32>(c);
    if ((U_MASK(u_charType(point)) & kUnchanged) != 0) continue;
    std::uint8_t bits = 0;
    if (u_getIntPropertyValue(point, quick_check) == UNORM_NO) bits |= kChanges;
    if (unorm2_hasBoundaryBefore(normalizer, point) == 0) bits |= kJoins;
    if (bits != 0 && is_as_old_as(c, kReferenceVersion)) all[c] = bits;
  }
  bits_ = CodePointTable<std::uint8_t>(all);
}

void NormalForm::apply(std::span<const char32_t> run, std::vector<ChangedCharacter>& out) const {
  const bool compatible = kind_ == nfkc || kind_ == nfkd;
  const UNormalizer2* normalizer = instance(compatible ? unorm2_getNFKCInstance : unorm2_getNFCInstance);
  out.clear();
  for (const char32_t c : run) decompose(normalizer, c, out);
  order_marks(out);
  if (kind_ == nfc || kind_ == nfkc) compose(out);
}

}  // namespace attnctl::tokenizer::unicode
