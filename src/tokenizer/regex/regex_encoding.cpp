#include "tokenizer/regex/regex_encoding.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/uscript.h>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

using icu::UnicodeSet;

UnicodeSet from_icu(UProperty property, std::int32_t value) {
  UErrorCode status = U_ZERO_ERROR;
  UnicodeSet set;
  set.applyIntPropertyValue(property, value, status);
  return set;
}

void add(UnicodeSet& set, const unicode::LaterRange& range) {
  set.add(static_cast<UChar32>(range.first), static_cast<UChar32>(range.last));
}

bool has_category(const unicode::LaterRange& range, std::uint32_t mask) {
  return (mask >> static_cast<unsigned>(range.category) & 1U) != 0;
}

UnicodeSet of_categories(std::uint32_t mask) {
  UnicodeSet set = from_icu(UCHAR_GENERAL_CATEGORY_MASK, static_cast<std::int32_t>(mask));
  for (const unicode::LaterRange& range : unicode::later_ranges()) {
    set.remove(static_cast<UChar32>(range.first), static_cast<UChar32>(range.last));
    if (has_category(range, mask)) add(set, range);
  }
  return set;
}

/// A binary property, which later characters of the categories `later` have too.
UnicodeSet of_binary(UProperty property, std::uint32_t later) {
  UnicodeSet set = from_icu(property, 1);
  for (const unicode::LaterRange& range : unicode::later_ranges()) {
    if (has_category(range, later)) add(set, range);
  }
  return set;
}

UnicodeSet alphabetic() {
  UnicodeSet set = of_binary(UCHAR_ALPHABETIC, U_GC_L_MASK);
  for (const unicode::LaterRange& range : unicode::later_ranges()) {
    if (range.alphabetic_mark) add(set, range);
  }
  return set.add(0x363, 0x36F).add(0x1DD3, 0x1DE6);  // marks that became alphabetic in Unicode 16
}

UnicodeSet white_space() {
  return from_icu(UCHAR_WHITE_SPACE, 1);
}

UnicodeSet lowercase() {
  return of_binary(UCHAR_LOWERCASE, U_GC_LL_MASK);
}

UnicodeSet uppercase() {
  return of_binary(UCHAR_UPPERCASE, U_GC_LU_MASK);
}

UnicodeSet visible() {
  return of_categories(U_GC_CN_MASK | U_GC_CC_MASK | U_GC_CS_MASK).complement();
}

UnicodeSet of_script(UScriptCode script) {
  UnicodeSet set = from_icu(UCHAR_SCRIPT, script);
  for (const unicode::LaterRange& range : unicode::later_ranges()) {
    if (range.script == script) add(set, range);
  }
  return set;
}

struct NamedSet {
  std::string_view name;
  UnicodeSet (*make)();
};

// Oniguruma's character types ONIGENC_CTYPE_ALPHA (1) to ONIGENC_CTYPE_ASCII (14), in numeric order.
constexpr NamedSet kTypes[] = {
    {"alpha", alphabetic},
    {"blank", [] { return of_categories(U_GC_ZS_MASK).add(U'\t'); }},
    {"cntrl", [] { return of_categories(U_GC_CC_MASK); }},
    {"digit", [] { return of_categories(U_GC_ND_MASK); }},
    {"graph", [] { return visible().removeAll(white_space()); }},
    {"lower", lowercase},
    {"print", [] { return visible().removeAll(of_categories(U_GC_ZL_MASK | U_GC_ZP_MASK)); }},
    {"punct", [] { return of_categories(U_GC_P_MASK | U_GC_S_MASK); }},
    {"space", white_space},
    {"upper", uppercase},
    {"xdigit", [] { return UnicodeSet(U'0', U'9').add(U'A', U'F').add(U'a', U'f'); }},
    {"word", [] { return alphabetic().addAll(of_categories(U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)); }},
    {"alnum", [] { return alphabetic().addAll(of_categories(U_GC_ND_MASK)); }},
    {"ascii", [] { return UnicodeSet(0, 0x7F); }},
};
// Names in \p{...} other than categories, scripts and the names above.
constexpr NamedSet kProperties[] = {
    {"alphabetic", alphabetic},
    {"any", [] { return UnicodeSet(0, 0x10FFFF); }},
    {"assigned", [] { return of_categories(U_GC_CN_MASK).complement(); }},
    {"lowercase", lowercase},
    {"uppercase", uppercase},
    {"whitespace", white_space},
};

template <std::size_t N>
std::optional<UnicodeSet> find(const NamedSet (&sets)[N], std::string_view name) {
  for (const NamedSet& set : sets) {
    if (set.name == name) return set.make();
  }
  return std::nullopt;
}

/// Returns the set of \p{name}, where `name` has no spaces, '-', '_' or capitals.
std::optional<UnicodeSet> find_property(const std::string& name) {
  const std::int32_t mask = u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, name.c_str());
  if (mask != UCHAR_INVALID_CODE) return of_categories(static_cast<std::uint32_t>(mask));
  if (auto set = find(kProperties, name)) return set;
  if (auto set = find(kTypes, name)) return set;
  const std::int32_t script = u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str());
  if (script == UCHAR_INVALID_CODE || script == USCRIPT_UNKNOWN) return std::nullopt;
  return of_script(static_cast<UScriptCode>(script));
}

/// Sets in Oniguruma's layout: the number of ranges, then first and last of each range.
class Sets {
 public:
  static Sets& get() {
    static Sets sets;
    return sets;
  }

  /// Returns a number for the property \p{name}, which then is one of ranges(); nullopt if it is unknown
  /// here.
  std::optional<OnigCtype> find_number(std::string_view name) {
    std::string plain;
    for (const char c : name) {
      if (c == ' ' || c == '-' || c == '_') continue;
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = numbers_.try_emplace(plain);
    if (is_new) {
      if (const std::optional<UnicodeSet> set = find_property(plain)) {
        known->second = kFirstProperty + static_cast<OnigCtype>(properties_.size());
        properties_.push_back(in_layout(*set));
      }
    }
    return known->second;
  }

  /// Returns the ranges of a character type or property; null if it is none of these sets.
  const OnigCodePoint* ranges(OnigCtype number) {
    if (number >= 1 && number <= types_.size()) return types_[number - 1].data();
    if (number < kFirstProperty) return nullptr;
    const std::lock_guard lock(mutex_);
    return properties_.at(number - kFirstProperty).data();
  }

 private:
  using Ranges = std::vector<OnigCodePoint>;
  static constexpr OnigCtype kFirstProperty = 1U << 20U;  // above Oniguruma's own numbers

  Sets() {
    for (const NamedSet& type : kTypes) types_.push_back(in_layout(type.make()));
  }

  static Ranges in_layout(const UnicodeSet& set) {
    Ranges ranges = {static_cast<OnigCodePoint>(set.getRangeCount())};
    for (std::int32_t i = 0; i < set.getRangeCount(); ++i) {
      ranges.push_back(static_cast<OnigCodePoint>(set.getRangeStart(i)));
      ranges.push_back(static_cast<OnigCodePoint>(set.getRangeEnd(i)));
    }
    return ranges;
  }

  std::vector<Ranges> types_;  // [kTypes]
  std::mutex mutex_;           // guards what follows
  std::deque<Ranges> properties_;
  std::map<std::string, std::optional<OnigCtype>> numbers_;
};

int property_number(OnigEncodingType* encoding, OnigUChar* begin, OnigUChar* end) {
  const std::string_view name(reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin));
  if (const auto number = Sets::get().find_number(name)) return static_cast<int>(*number);
  return OnigEncodingUTF8.property_name_to_ctype(encoding, begin, end);
}

int is_in_set(OnigCodePoint c, OnigCtype number) {
  // Outside of [], \w also has the superscripts and fractions of Latin-1: the library knows them.
  if (c < 0x100) return OnigEncodingUTF8.is_code_ctype(c, number);
  const OnigCodePoint* const ranges = Sets::get().ranges(number);
  if (ranges == nullptr) return OnigEncodingUTF8.is_code_ctype(c, number);
  // The first bound above c is the end of its range, or the beginning of the next one.
  const OnigCodePoint* const bounds = ranges + 1;
  const OnigCodePoint* const above = std::upper_bound(bounds, bounds + 2 * std::size_t{ranges[0]}, c);
  return (above - bounds) % 2 == 1 || (above != bounds && *(above - 1) == c) ? 1 : 0;
}

int ranges_of(OnigCtype number, OnigCodePoint* single_byte_end, const OnigCodePoint** ranges) {
  *single_byte_end = 0x80;
  *ranges = Sets::get().ranges(number);
  return *ranges != nullptr ? 0 : OnigEncodingUTF8.get_ctype_code_range(number, single_byte_end, ranges);
}

}  // namespace

OnigEncoding regex_encoding() {
  static OnigEncodingType encoding = [] {
    OnigEncodingType changed = OnigEncodingUTF8;
    changed.property_name_to_ctype = property_number;
    changed.is_code_ctype = is_in_set;
    changed.get_ctype_code_range = ranges_of;
    return changed;
  }();
  [[maybe_unused]] static const int initialized = [] {
    OnigEncoding encodings[] = {&encoding};
    return onig_initialize(encodings, 1);
  }();
  return &encoding;
}

}  // namespace attnctl
