#include "tokenizer/regex/regex.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#define ONIG_ESCAPE_UCHAR_COLLISION 1  // prevents a conflict with the type UChar of ICU
#include <oniguruma.h>

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/uscript.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl::tokenizer {
namespace {

using icu::UnicodeSet;
using unicode::LaterRange;

/// Returns the characters for which `property` has the value `value` in ICU, and the characters of
/// unicode::later_ranges() for which has(range) returns true. If `property` is the general category, the set
/// has no other characters of later_ranges().
template <typename Has>
UnicodeSet set_of(UProperty property, std::int32_t value, Has has) {
  UErrorCode status = U_ZERO_ERROR;
  UnicodeSet set;
  set.applyIntPropertyValue(property, value, status);
  for (const LaterRange& range : unicode::later_ranges()) {
    const auto first = static_cast<UChar32>(range.first);
    const auto last = static_cast<UChar32>(range.last);
    if (property == UCHAR_GENERAL_CATEGORY_MASK) set.remove(first, last);
    if (has(range)) set.add(first, last);
  }
  return set;
}

bool has_category(const LaterRange& range, std::uint32_t mask) {
  return (mask >> static_cast<unsigned>(range.category) & 1U) != 0;
}

UnicodeSet of_categories(std::uint32_t mask) {
  return set_of(UCHAR_GENERAL_CATEGORY_MASK, static_cast<std::int32_t>(mask),
                [=](const LaterRange& range) { return has_category(range, mask); });
}

/// Returns the characters with a binary property in ICU, and the characters of later_ranges() whose category
/// is in the mask `later`.
UnicodeSet of_binary(UProperty property, std::uint32_t later) {
  return set_of(property, 1, [=](const LaterRange& range) { return has_category(range, later); });
}

UnicodeSet alphabetic() {
  return set_of(UCHAR_ALPHABETIC, 1,
                [](const LaterRange& range) {
                  return range.alphabetic_mark || has_category(range, U_GC_L_MASK);
                })
      .add(0x363, 0x36F)
      .add(0x1DD3, 0x1DE6);  // marks that became alphabetic in Unicode 16
}

UnicodeSet visible() {
  return of_categories(U_GC_CN_MASK | U_GC_CC_MASK | U_GC_CS_MASK).complement();
}

struct NamedSet {
  std::string_view name;
  std::string_view alias;  // another name, or the same name
  UnicodeSet (*make)();
};

// The sets of Oniguruma's character types ONIGENC_CTYPE_ALPHA (1) to ONIGENC_CTYPE_ASCII (14), in numeric
// order, then other names that \p{...} may contain in addition to categories and scripts.
constexpr std::size_t kTypes = 14;
constexpr NamedSet kNamedSets[] = {
    {"alpha", "alphabetic", alphabetic},
    {"blank", "blank", [] { return of_categories(U_GC_ZS_MASK).add(U'\t'); }},
    {"cntrl", "cntrl", [] { return of_categories(U_GC_CC_MASK); }},
    {"digit", "digit", [] { return of_categories(U_GC_ND_MASK); }},
    {"graph", "graph", [] { return visible().removeAll(of_binary(UCHAR_WHITE_SPACE, 0)); }},
    {"lower", "lowercase", [] { return of_binary(UCHAR_LOWERCASE, U_GC_LL_MASK); }},
    {"print", "print", [] { return visible().removeAll(of_categories(U_GC_ZL_MASK | U_GC_ZP_MASK)); }},
    {"punct", "punct", [] { return of_categories(U_GC_P_MASK | U_GC_S_MASK); }},
    {"space", "whitespace", [] { return of_binary(UCHAR_WHITE_SPACE, 0); }},
    {"upper", "uppercase", [] { return of_binary(UCHAR_UPPERCASE, U_GC_LU_MASK); }},
    {"xdigit", "xdigit", [] { return UnicodeSet(U'0', U'9').add(U'A', U'F').add(U'a', U'f'); }},
    {"word", "word",
     [] { return alphabetic().addAll(of_categories(U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)); }},
    {"alnum", "alnum", [] { return alphabetic().addAll(of_categories(U_GC_ND_MASK)); }},
    {"ascii", "ascii", [] { return UnicodeSet(0, 0x7F); }},
    {"any", "any", [] { return UnicodeSet(0, 0x10FFFF); }},
    {"assigned", "assigned", [] { return of_categories(U_GC_CN_MASK).complement(); }},
};

/// Returns the set of characters that \p{name} matches; nullopt if the name is unknown. `name` must not
/// contain spaces, '-', '_' or capitals.
std::optional<UnicodeSet> find_property(const std::string& name) {
  const std::int32_t mask = u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, name.c_str());
  if (mask != UCHAR_INVALID_CODE) return of_categories(static_cast<std::uint32_t>(mask));
  const auto* const named = std::ranges::find_if(
      kNamedSets, [&](const NamedSet& set) { return set.name == name || set.alias == name; });
  if (named != std::end(kNamedSets)) return named->make();
  const std::int32_t script = u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str());
  if (script == UCHAR_INVALID_CODE || script == USCRIPT_UNKNOWN) return std::nullopt;
  return set_of(UCHAR_SCRIPT, script, [=](const LaterRange& range) { return range.script == script; });
}

/// The character sets in the layout that Oniguruma uses: the number of ranges, then the first and the last
/// code point of each range.
class Sets {
 public:
  static Sets& get() {
    static Sets sets;
    return sets;
  }

  /// Returns the number of the set of \p{name} for ranges(); nullopt if find_property() lacks the name.
  std::optional<OnigCtype> find_number(std::string_view name) {
    std::string plain = lower_case(name);
    std::erase_if(plain, [](char c) { return c == ' ' || c == '-' || c == '_'; });
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

  /// Returns the ranges of a character type or of a number from find_number(); null if there are none.
  const OnigCodePoint* ranges(OnigCtype number) {
    if (number >= 1 && number <= types_.size()) return types_[number - 1].data();
    if (number < kFirstProperty) return nullptr;
    const std::lock_guard lock(mutex_);
    return properties_.at(number - kFirstProperty).data();
  }

 private:
  using Ranges = std::vector<OnigCodePoint>;
  static constexpr OnigCtype kFirstProperty = 1U << 20U;  // larger than all numbers of Oniguruma

  Sets() {
    for (std::size_t i = 0; i < kTypes; ++i) types_.push_back(in_layout(kNamedSets[i].make()));
  }

  static Ranges in_layout(const UnicodeSet& set) {
    Ranges ranges = {static_cast<OnigCodePoint>(set.getRangeCount())};
    for (std::int32_t i = 0; i < set.getRangeCount(); ++i) {
      ranges.push_back(static_cast<OnigCodePoint>(set.getRangeStart(i)));
      ranges.push_back(static_cast<OnigCodePoint>(set.getRangeEnd(i)));
    }
    return ranges;
  }

  std::vector<Ranges> types_;  // [kTypes], ranges of each character type
  std::mutex mutex_;           // guards the members below
  std::deque<Ranges> properties_;
  std::map<std::string, std::optional<OnigCtype>> numbers_;
};

int property_number(OnigEncodingType* encoding, OnigUChar* begin, OnigUChar* end) {
  const std::string_view name(reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin));
  if (const auto number = Sets::get().find_number(name)) return static_cast<int>(*number);
  return OnigEncodingUTF8.property_name_to_ctype(encoding, begin, end);
}

int is_in_set(OnigCodePoint c, OnigCtype number) {
  // Latin-1 characters are left to Oniguruma, because \w outside of [] also matches the superscripts and
  // fractions of Latin-1.
  if (c < 0x100) return OnigEncodingUTF8.is_code_ctype(c, number);
  const OnigCodePoint* const ranges = Sets::get().ranges(number);
  if (ranges == nullptr) return OnigEncodingUTF8.is_code_ctype(c, number);
  // `above` is the first bound larger than c: the end of the range with c, or the start of the next range.
  const OnigCodePoint* const bounds = ranges + 1;
  const OnigCodePoint* const above = std::upper_bound(bounds, bounds + 2 * std::size_t{ranges[0]}, c);
  return (above - bounds) % 2 == 1 || (above != bounds && *(above - 1) == c) ? 1 : 0;
}

int ranges_of(OnigCtype number, OnigCodePoint* single_byte_end, const OnigCodePoint** ranges) {
  *single_byte_end = 0x80;
  *ranges = Sets::get().ranges(number);
  return *ranges != nullptr ? 0 : OnigEncodingUTF8.get_ctype_code_range(number, single_byte_end, ranges);
}

/// Returns Oniguruma's UTF-8 encoding, changed to use the character properties of Unicode 16.
/// Hugging Face tokenizers use Oniguruma 6.9.10, which has Unicode 16. The installed library may be older
/// (6.9.8 has Unicode 14). The character sets are therefore made from ICU and unicode::later_ranges(). Case
/// folding is not changed: with Oniguruma 6.9.8, (?i) does not work for 27 pairs of rare letters.
OnigEncoding regex_encoding() {
  static OnigEncodingType encoding = [] {
    OnigEncodingType changed = OnigEncodingUTF8;
    changed.property_name_to_ctype = property_number;
    changed.is_code_ctype = is_in_set;
    changed.get_ctype_code_range = ranges_of;
    return changed;
  }();
  static const int initialized = [] {
    OnigEncoding encodings[] = {&encoding};
    return onig_initialize(encodings, 1);
  }();
  if (initialized != ONIG_NORMAL) throw std::bad_alloc();
  return &encoding;
}

// Limits on backtracking. The limit of one match is kRetriesPerMatch, Oniguruma's default. Reaching it takes
// about 0.2 s. The limit of a search for the next match is larger by kRetriesPerByte for each byte of the
// text.
constexpr unsigned long kRetriesPerMatch = 10'000'000;
constexpr unsigned long kRetriesPerByte = 100;
constexpr unsigned kStackLimit = 1U << 22U;  // number of saved states in one match, about 50 bytes each

using RegexPtr = std::shared_ptr<regex_t>;

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string message_of(int code, const OnigErrorInfo& info) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> text{};
  const int size = onig_error_code_to_str(text.data(), code, &info);
  return {reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(size)};
}

RegexPtr compile(const PartConfig& where, std::string_view pattern) {
  regex_t* compiled = nullptr;
  OnigErrorInfo info{};
  const int code = onig_new(&compiled, bytes_of(pattern), bytes_of(pattern) + pattern.size(),
                            ONIG_OPTION_NONE, regex_encoding(), ONIG_SYNTAX_ONIGURUMA, &info);
  if (code == ONIGERR_MEMORY) throw std::bad_alloc();
  if (code != ONIG_NORMAL) {
    // The message of the library can have a part of the pattern.
    where.refuse("", fmt::format("invalid regular expression {}: {}", in_quotes(pattern),
                                 escaped(message_of(code, info))));
  }
  return {compiled, onig_free};
}

/// Returns the end of the character or character class at the beginning of a pattern; 0 if the pattern starts
/// with something else, such as \. or a class that contains a "[" or begins with "]".
std::size_t class_end(std::string_view pattern) {
  constexpr std::string_view kSpecial = "\\^$.|?*+()[{";
  if (pattern.empty()) return 0;
  if (pattern.starts_with("\\p{") || pattern.starts_with("\\P{")) return pattern.find('}') + 1;
  if (pattern[0] == '\\') {
    return pattern.size() > 1 && std::string_view("sSdDwW").find(pattern[1]) != std::string_view::npos ? 2
                                                                                                       : 0;
  }
  if (pattern[0] != '[') {
    std::size_t end = 0;
    unicode::next(pattern, end);
    return kSpecial.find(pattern[0]) == std::string_view::npos ? end : 0;
  }
  std::size_t i = pattern.starts_with("[^") ? 2 : 1;
  if (i < pattern.size() && pattern[i] == ']') return 0;  // the class contains the character ]
  for (; i < pattern.size() && pattern[i] != '['; i += pattern[i] == '\\' ? 2 : 1) {
    if (pattern[i] == ']') return i + 1;
  }
  return 0;
}

/// A pattern that is one character or character class, optionally with a quantifier +, {n}, {n,} or {n,m},
/// such as \s+, [0-9] or \p{N}{1,3}. The matches are runs of characters of the class. Finding them directly
/// is about ten times as fast as a search by Oniguruma.
class ClassRun {
 public:
  static std::optional<ClassRun> of(const PartConfig& where, std::string_view pattern) {
    const std::size_t end = class_end(pattern);
    if (end == 0) return std::nullopt;
    ClassRun run;
    if (!run.read_quantifier(pattern.substr(end))) return std::nullopt;
    run.compiled_ = compile(where, pattern.substr(0, end));
    for (std::size_t i = 0; i < run.ascii_.size(); ++i) {
      const auto c = static_cast<char>(i);
      run.ascii_[i] = run.match({&c, 1}, 0) == 1;
    }
    return run;
  }

  /// Appends all matches to `matches`, which must be empty.
  void operator()(std::string_view text, std::vector<Regex::Match>& matches) const {
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t begin = i;
      for (std::size_t count = 0; count < most_ && i < text.size(); ++count) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const std::size_t size = byte >= 0x80 ? match(text, i) : ascii_[byte] ? 1 : 0;
        if (size == 0) break;
        i += size;
        if (count + 1 < least_) continue;
        if (count + 1 > least_) matches.pop_back();
        matches.emplace_back(begin, i);
      }
      if (i == begin) unicode::next(text, i);
    }
  }

 private:
  /// Reads a quantifier: "", "+", "{n}", "{n,}" or "{n,m}" with 1 <= n <= m. Returns false if `text` is not
  /// one of these, or if n or m is larger than kLargestCount.
  bool read_quantifier(std::string_view text) {
    constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
    if (text.empty()) return true;
    if (text == "+") return most_ = kNoLimit, true;
    if (!text.starts_with('{') || !text.ends_with('}')) return false;
    text = text.substr(1, text.size() - 2);
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::optional<std::size_t> least = parse_number(text.substr(0, comma));
    const std::optional<std::size_t> most = comma == text.size()       ? least
                                            : comma + 1 == text.size() ? kNoLimit
                                                                       : parse_number(text.substr(comma + 1));
    if (!least || !most || *least == 0 || *least > *most || *least > kLargestCount) return false;
    least_ = *least;
    most_ = *most;
    return *most == kNoLimit || *most <= kLargestCount;
  }

  /// Returns the size of the character at byte `i` if the character is in the class, otherwise 0.
  [[nodiscard]] std::size_t match(std::string_view text, std::size_t i) const {
    const OnigUChar* const begin = bytes_of(text);
    const int size =
        onig_match(compiled_.get(), begin, begin + text.size(), begin + i, nullptr, ONIG_OPTION_NONE);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }

  static constexpr std::size_t kLargestCount = 100'000;  // Oniguruma rejects larger counts
  RegexPtr compiled_;                                    // pattern of the character class
  std::size_t least_ = 1;
  std::size_t most_ = 1;
  std::array<bool, 128> ascii_{};
};

/// Appends the matches of a pattern that Oniguruma has compiled. `place` is the pattern's place, for errors.
void search(regex_t* compiled, const std::string& place, std::string_view text,
            std::vector<Regex::Match>& matches) {
  // Oniguruma stores offsets as int.
  if (text.size() > std::numeric_limits<int>::max())
    fail(Status::limit, "{}: cannot search a text of {} bytes, need less than 2 GiB; split the text", place,
         text.size());
  thread_local const std::shared_ptr<OnigRegion> region(onig_region_new(),
                                                        [](OnigRegion* made) { onig_region_free(made, 1); });
  thread_local const std::shared_ptr<OnigMatchParam> limits(onig_new_match_param(), onig_free_match_param);
  if (region == nullptr || limits == nullptr) throw std::bad_alloc();
  onig_set_match_stack_limit_size_of_match_param(limits.get(), kStackLimit);
  onig_set_retry_limit_in_match_of_match_param(limits.get(), kRetriesPerMatch);
  onig_set_retry_limit_in_search_of_match_param(limits.get(),
                                                kRetriesPerMatch + kRetriesPerByte * text.size());
  const OnigUChar* const begin = bytes_of(text);
  const OnigUChar* const end = begin + text.size();
  for (std::size_t from = 0; from <= text.size();) {
    const int code = onig_search_with_param(compiled, begin, end, begin + from, end, region.get(),
                                            ONIG_OPTION_NONE, limits.get());
    if (code == ONIG_MISMATCH) return;
    if (code == ONIGERR_MEMORY) throw std::bad_alloc();
    if (code < 0) {
      refuse(place, "the regular expression fails on a text ({}); simplify the expression",
             message_of(code, {}));
    }
    const auto first = static_cast<std::size_t>(region->beg[0]);
    const auto last = static_cast<std::size_t>(region->end[0]);
    const std::size_t done = matches.empty() ? 0 : matches.back().second;
    if (first > last || first < done) {
      refuse(place, "\\K in a look-around makes matches overlap; remove \\K");
    }
    if (first < last || matches.empty() || last > done) matches.emplace_back(first, last);
    from = last;
    if (first < last) continue;
    if (from == text.size()) return;
    unicode::next(text, from);
  }
}

}  // namespace

Regex::Regex(const PartConfig& where, std::string_view pattern) {
  if (const std::optional<WordRules> rules = WordRules::of(pattern)) {
    append_all_ = [cutter = WordCutter(*rules)](std::string_view text, std::vector<Match>& matches) {
      for (std::size_t i = 0; i < text.size(); i = matches.back().second) {
        matches.emplace_back(i, cutter.end(text, i));
      }
    };
  } else if (const std::optional<ClassRun> run = ClassRun::of(where, pattern)) {
    append_all_ = *run;
  } else {
    append_all_ = [place = where.place(), compiled = compile(where, pattern)](std::string_view text,
                                                                              std::vector<Match>& matches) {
      search(compiled.get(), place, text, matches);
    };
  }
}

Regex Regex::literal(std::string string) {
  return Regex([string = std::move(string)](std::string_view text, std::vector<Match>& matches) {
    for (std::size_t i = text.find(string); i < text.size(); i = text.find(string, i + string.size())) {
      matches.emplace_back(i, i + string.size());
    }
  });
}

Regex read_pattern(const PartConfig& config) {
  const PartConfig pattern = config.object("pattern");
  if (pattern.node().size() == 1) {
    if (pattern.has("String")) {
      std::string string = pattern.string("String");
      if (!string.empty()) return Regex::literal(std::move(string));
      // The empty string, which matches before and after each character.
      return {pattern.at("String"), string};
    }
    if (pattern.has("Regex")) return {pattern.at("Regex"), pattern.string("Regex")};
  }
  config.refuse("pattern", R"(unsupported; need {"String": text} or {"Regex": expression})");
}

}  // namespace attnctl::tokenizer
