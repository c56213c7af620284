#include "tokenizer/regex/regex_set.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>
#include <unicode/usetiter.h>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::regex_set {
namespace {

using Set = icu::UnicodeSet;

struct Range {
  UChar32 first;
  UChar32 last;
};

// What Unicode 16 has beyond ICU 72. Letters and their case follow from the categories.
constexpr Range later_alphabetic_marks[] = {{0x363, 0x36F},     {0x897, 0x897},     {0x1DD3, 0x1DE6},
                                            {0x10D69, 0x10D69}, {0x10EFC, 0x10EFC}, {0x113B8, 0x113C0},
                                            {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA},
                                            {0x113CC, 0x113CD}, {0x1171E, 0x1171E}, {0x1611E, 0x1612E}};

struct ScriptRange {
  UScriptCode script;
  Range range;
};
constexpr ScriptRange later_scripts[] = {
    {USCRIPT_ARABIC, {0x897, 0x897}},
    {USCRIPT_ARABIC, {0x10EC2, 0x10EC4}},
    {USCRIPT_ARABIC, {0x10EFC, 0x10EFC}},
    {USCRIPT_CYRILLIC, {0x1C89, 0x1C8A}},
    {USCRIPT_HAN, {0x2EBF0, 0x2EE5D}},
    {USCRIPT_LATIN, {0xA7CB, 0xA7CD}},
    {USCRIPT_LATIN, {0xA7DA, 0xA7DC}},
    {USCRIPT_MYANMAR, {0x116D0, 0x116E3}},
    {USCRIPT_BALINESE, {0x1B4E, 0x1B4F}},
    {USCRIPT_BALINESE, {0x1B7F, 0x1B7F}},
    {USCRIPT_EGYPTIAN_HIEROGLYPHS, {0x13460, 0x143FA}},
    {USCRIPT_KHITAN_SMALL_SCRIPT, {0x18CFF, 0x18CFF}},
    {USCRIPT_KAWI, {0x11F5A, 0x11F5A}},
    {USCRIPT_COMMON, {0x2427, 0x2429}},
    {USCRIPT_COMMON, {0x2FFC, 0x2FFF}},
    {USCRIPT_COMMON, {0x31E4, 0x31E5}},
    {USCRIPT_COMMON, {0x31EF, 0x31EF}},
    {USCRIPT_COMMON, {0x1CC00, 0x1CCF9}},
    {USCRIPT_COMMON, {0x1CD00, 0x1CEB3}},
    {USCRIPT_COMMON, {0x1F8B2, 0x1F8BB}},
    {USCRIPT_COMMON, {0x1F8C0, 0x1F8C1}},
    {USCRIPT_COMMON, {0x1FA89, 0x1FA89}},
    {USCRIPT_COMMON, {0x1FA8F, 0x1FA8F}},
    {USCRIPT_COMMON, {0x1FABE, 0x1FABE}},
    {USCRIPT_COMMON, {0x1FAC6, 0x1FAC6}},
    {USCRIPT_COMMON, {0x1FADC, 0x1FADC}},
    {USCRIPT_COMMON, {0x1FADF, 0x1FADF}},
    {USCRIPT_COMMON, {0x1FAE9, 0x1FAE9}},
    {USCRIPT_COMMON, {0x1FBCB, 0x1FBEF}},
};

// Pairs of upper and lower case of Unicode 16.
constexpr Range later_cases[] = {
    {0x1C89, 0x1C8A}, {0xA7CB, 0x264}, {0xA7CC, 0xA7CD}, {0xA7DA, 0xA7DB}, {0xA7DC, 0x19B}};
constexpr Range garay_upper = {0x10D50, 0x10D65};
constexpr UChar32 garay_lower = 0x10D70;

template <std::size_t N>
void add(Set& set, const Range (&ranges)[N]) {
  for (const Range& range : ranges) set.add(range.first, range.last);
}

Set of_categories(std::uint32_t mask) {
  struct Making {
    std::uint32_t mask;
    Set set;
  };
  Making making{mask, Set()};
  u_enumCharTypes(
      [](const void* context, UChar32 first, UChar32 limit, UCharCategory category) -> UBool {
        auto& made = *static_cast<Making*>(const_cast<void*>(context));  // ICU's way to hand it through
        if ((made.mask >> static_cast<unsigned>(category) & 1U) != 0) made.set.add(first, limit - 1);
        return true;
      },
      &making);
  for (const unicode::CategoryRange& later : unicode::later_categories()) {
    const auto first = static_cast<UChar32>(later.first);
    const auto last = static_cast<UChar32>(later.last);
    if ((mask >> static_cast<unsigned>(later.category) & 1U) != 0) {
      making.set.add(first, last);
    } else {
      making.set.remove(first, last);
    }
  }
  return making.set;
}

Set of_binary(UProperty property, std::uint32_t later_mask) {
  UErrorCode status = U_ZERO_ERROR;
  Set set;
  set.applyIntPropertyValue(property, 1, status);
  for (const unicode::CategoryRange& later : unicode::later_categories()) {
    if ((later_mask >> static_cast<unsigned>(later.category) & 1U) == 0) continue;
    set.add(static_cast<UChar32>(later.first), static_cast<UChar32>(later.last));
  }
  return set;
}

Set alphabetic() {
  Set set = of_binary(UCHAR_ALPHABETIC, U_GC_L_MASK);
  add(set, later_alphabetic_marks);
  return set;
}

Set white_space() {
  return of_binary(UCHAR_WHITE_SPACE, 0);
}

Set word() {
  return alphabetic().addAll(of_categories(U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK));
}

Set hexadecimal() {
  return Set(U'0', U'9').add(U'A', U'F').add(U'a', U'f');
}

struct Named {
  std::string_view name;
  Set (*make)();
};
constexpr Named posix_names[] = {
    {"alnum", [] { return alphabetic().addAll(of_categories(U_GC_ND_MASK)); }},
    {"alpha", alphabetic},
    {"ascii", [] { return Set(0, 0x7F); }},
    {"blank", [] { return of_categories(U_GC_ZS_MASK).add(U'\t'); }},
    {"cntrl", [] { return of_categories(U_GC_CC_MASK); }},
    {"digit", [] { return of_categories(U_GC_ND_MASK); }},
    {"graph",
     [] {
       return of_categories(U_GC_CN_MASK | U_GC_CC_MASK | U_GC_CS_MASK).addAll(white_space()).complement();
     }},
    {"lower", [] { return of_binary(UCHAR_LOWERCASE, U_GC_LL_MASK); }},
    {"print",
     [] {
       return of_categories(U_GC_CN_MASK | U_GC_CC_MASK | U_GC_CS_MASK | U_GC_ZL_MASK | U_GC_ZP_MASK)
           .complement();
     }},
    {"punct", [] { return of_categories(U_GC_P_MASK | U_GC_S_MASK); }},
    {"space", white_space},
    {"upper", [] { return of_binary(UCHAR_UPPERCASE, U_GC_LU_MASK); }},
    {"xdigit", hexadecimal},
    {"word", word},
};
// What \p{} has beside categories, scripts and the names above.
constexpr Named property_names[] = {
    {"alphabetic", alphabetic},
    {"any", [] { return Set(0, 0x10FFFF); }},
    {"assigned", [] { return of_categories(U_GC_CN_MASK).complement(); }},
    {"lowercase", [] { return of_binary(UCHAR_LOWERCASE, U_GC_LL_MASK); }},
    {"uppercase", [] { return of_binary(UCHAR_UPPERCASE, U_GC_LU_MASK); }},
    {"whitespace", white_space},
};

template <std::size_t N>
std::optional<Set> of_name(const Named (&names)[N], std::string_view name) {
  for (const Named& named : names) {
    if (named.name == name) return named.make();
  }
  return std::nullopt;
}

Set of_script(UScriptCode script) {
  UErrorCode status = U_ZERO_ERROR;
  Set set;
  set.applyIntPropertyValue(UCHAR_SCRIPT, script, status);
  for (const ScriptRange& later : later_scripts) {
    if (later.script == script) set.add(later.range.first, later.range.last);
  }
  return set;
}

/// As Oniguruma compares names: without case, spaces, '-' and '_'.
std::string loose(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

/// Every string that one character is equal to but for case, folded: "ss", "fi" and a hundred others.
const std::vector<std::u32string>& foldings_of_one() {
  static const std::vector<std::u32string> foldings = [] {
    std::vector<std::u32string> all;
    const Set changing = of_binary(UCHAR_CHANGES_WHEN_CASEFOLDED, 0);
    for (icu::UnicodeSetIterator each(changing); each.next() != 0;) {
      icu::UnicodeString folded(each.getCodepoint());
      folded.foldCase();
      std::u32string code_points;
      for (std::int32_t i = 0; i < folded.length(); i = folded.moveIndex32(i, 1)) {
        code_points += static_cast<char32_t>(folded.char32At(i));
      }
      if (code_points.size() > 1) all.push_back(code_points);
    }
    return all;
  }();
  return foldings;
}

}  // namespace

std::optional<icu::UnicodeSet> of_letter(char32_t letter) {
  switch (letter) {
    case U'w':
      return word();
    case U's':
      return white_space();
    case U'd':
      return of_categories(U_GC_ND_MASK);
    case U'h':
      return hexadecimal();
    default:
      return std::nullopt;
  }
}

const icu::UnicodeSet& word_by_itself() {
  static const Set set = word().add(0xB2, 0xB3).add(0xB9).add(0xBC, 0xBE);
  return set;
}

std::optional<icu::UnicodeSet> of_posix_bracket(std::string_view name) {
  return of_name(posix_names, name);
}

std::optional<icu::UnicodeSet> of_property(std::string_view name) {
  const std::string plain = loose(name);
  const std::int32_t mask = u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, plain.c_str());
  if (mask != UCHAR_INVALID_CODE) return of_categories(static_cast<std::uint32_t>(mask));
  if (auto set = of_name(property_names, plain)) return set;
  // By itself \p{word} is not what it is in a class; such a pattern can say \w.
  if (plain == "word") return std::nullopt;
  if (auto set = of_name(posix_names, plain)) return set;
  const std::int32_t script = u_getPropertyValueEnum(UCHAR_SCRIPT, plain.c_str());
  if (script == UCHAR_INVALID_CODE || script == USCRIPT_UNKNOWN) return std::nullopt;
  return of_script(static_cast<UScriptCode>(script));
}

bool close_over_case(icu::UnicodeSet& set) {
  set.closeOver(USET_CASE_INSENSITIVE);
  if (set.hasStrings()) return false;
  const auto pair = [&](UChar32 upper, UChar32 lower) {
    if (set.contains(upper) || set.contains(lower)) set.add(upper).add(lower);
  };
  for (const Range& each : later_cases) pair(each.first, each.last);
  for (UChar32 c = garay_upper.first; c <= garay_upper.last; ++c)
    pair(c, garay_lower + (c - garay_upper.first));
  return true;
}

bool folds_together(const std::u32string& run) {
  std::u32string folded;
  for (const char32_t c : run) {
    folded += static_cast<char32_t>(u_foldCase(static_cast<UChar32>(c), U_FOLD_CASE_DEFAULT));
  }
  const std::vector<std::u32string>& foldings = foldings_of_one();
  return std::any_of(foldings.begin(), foldings.end(), [&](const std::u32string& folding) {
    return folded.find(folding) != std::u32string::npos;
  });
}

std::u16string to_pattern(const icu::UnicodeSet& set) {
  if (set.isEmpty()) return u"(?:(?!))";
  std::string pattern = "[";
  for (std::int32_t i = 0; i < set.getRangeCount(); ++i) {
    const auto first = static_cast<std::uint32_t>(set.getRangeStart(i));
    const auto last = static_cast<std::uint32_t>(set.getRangeEnd(i));
    fmt::format_to(std::back_inserter(pattern), "\\x{{{:X}}}", first);
    if (last != first) fmt::format_to(std::back_inserter(pattern), "-\\x{{{:X}}}", last);
  }
  pattern += ']';
  return {pattern.begin(), pattern.end()};
}

}  // namespace attnctl::regex_set
