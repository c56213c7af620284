#include "tokenizer/regex/regex_scanner.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/shown.hpp"
#include "tokenizer/regex/regex_set.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

bool is_digit(char32_t c) {
  return c >= U'0' && c <= U'9';
}

std::optional<unsigned> digit_value(char32_t c) {
  if (is_digit(c)) return static_cast<unsigned>(c - U'0');
  if (c >= U'a' && c <= U'f') return static_cast<unsigned>(c - U'a' + 10);
  if (c >= U'A' && c <= U'F') return static_cast<unsigned>(c - U'A' + 10);
  return std::nullopt;
}

}  // namespace

RegexScanner::RegexScanner(const PartConfig& where, std::string_view pattern)
    : where_(where), pattern_(pattern) {
  for (std::size_t i = 0; i < pattern.size();) text_ += unicode::next(pattern, i);
}

void RegexScanner::refuse(std::string_view what) const {
  where_.refuse("", fmt::format("unsupported in the regular expression {}: {} before character {}",
                                in_quotes(pattern_), what, at_));
}

void RegexScanner::refuse_escape(char32_t letter) const {
  refuse("\\" + std::string(unicode::Utf8(letter)));
}

void RegexScanner::refuse_group() const {
  if (at_end()) refuse("unmatched (");
  refuse("(?" + std::string(unicode::Utf8(peek())));
}

char32_t RegexScanner::take() {
  if (at_end()) refuse("an end too early");
  return text_[at_++];
}

bool RegexScanner::accept(char32_t c) {
  if (at_end() || peek() != c) return false;
  ++at_;
  return true;
}

bool RegexScanner::has_names() const {
  for (std::size_t i = 0; (i = text_.find(U"(?", i)) != std::u32string::npos; ++i) {
    const std::u32string_view rest = std::u32string_view(text_).substr(i + 2);
    if (rest.starts_with(U'\'')) return true;
    if (rest.starts_with(U'<') && !rest.starts_with(U"<=") && !rest.starts_with(U"<!")) return true;
  }
  return false;
}

bool RegexScanner::accept_name() {
  const char32_t closing = looking_at(U"<") ? U'>' : U'\'';
  if (!accept(U'<') && !accept(U'\'')) return false;
  std::size_t length = 0;
  for (char32_t c = take(); c != closing; c = take()) {
    if (!unicode::is_word(c) || (length == 0 && is_digit(c))) refuse("a group's name that is no word");
    ++length;
  }
  if (length == 0) refuse("a group without its name");
  return true;
}

const char16_t* RegexScanner::accept_look_around() {
  struct Row {
    std::u32string_view text;
    const char16_t* written;
  };
  static constexpr Row rows[] = {{U"=", u"(?="}, {U"!", u"(?!"}, {U"<=", u"(?<="}, {U"<!", u"(?<!"}};
  for (const Row& row : rows) {
    if (!looking_at(row.text)) continue;
    at_ += row.text.size();
    return row.written;
  }
  return nullptr;
}

std::optional<std::uint32_t> RegexScanner::number() {
  constexpr std::uint32_t too_large = 1000000;
  if (at_end() || !is_digit(peek())) return std::nullopt;
  std::uint32_t value = 0;
  while (!at_end() && is_digit(peek())) {
    value = std::min(value * 10 + static_cast<std::uint32_t>(take() - U'0'), too_large);
  }
  return value;
}

std::optional<RegexScanner::Repeat> RegexScanner::accept_repeat() {
  if (accept(U'*')) return Repeat{0, no_limit, false};
  if (accept(U'+')) return Repeat{1, no_limit, false};
  if (accept(U'?')) return Repeat{0, 1, false};
  const std::size_t begin = at_;
  if (accept(U'{')) {
    const std::optional<std::uint32_t> least = number();
    std::optional<std::uint32_t> most = least;
    const bool comma = accept(U',');
    if (comma) most = number();
    if (accept(U'}') && (least || most)) return Repeat{least.value_or(0), most.value_or(no_limit), !comma};
  }
  at_ = begin;
  return std::nullopt;
}

char32_t RegexScanner::hexadecimal(std::size_t at_most) {
  char32_t value = 0;
  std::size_t digits = 0;
  while (digits < at_most && !at_end()) {
    const std::optional<unsigned> digit = digit_value(peek());
    if (!digit) break;
    value = value * 16 + *digit;
    ++at_;
    ++digits;
  }
  if (digits == 0) refuse("\\x or \\u without digits");
  return value;
}

char32_t RegexScanner::code_point_in_braces() {
  const char32_t value = hexadecimal(8);
  if (!accept(U'}') || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
    refuse("\\x{...} that is no one code point");
  }
  return value;
}

std::optional<char32_t> RegexScanner::escaped_character() {
  struct Row {
    char32_t letter;
    char32_t meaning;
  };
  static constexpr Row rows[] = {{U't', U'\t'}, {U'n', U'\n'}, {U'v', U'\v'}, {U'r', U'\r'},
                                 {U'f', U'\f'}, {U'a', U'\a'}, {U'e', 0x1B}};
  if (at_end()) refuse("a backslash at the end");
  const char32_t c = peek();
  for (const Row& row : rows) {
    if (row.letter == c) return at_++, row.meaning;
  }
  if (accept(U'x')) {
    if (accept(U'{')) return code_point_in_braces();
    const char32_t value = hexadecimal(2);
    if (value > 0x7F) refuse("\\x of a byte that is no character; \\x{...} names code points");
    return value;
  }
  if (accept(U'u')) {
    const std::size_t begin = at_;
    const char32_t value = hexadecimal(4);
    if (at_ - begin != 4 || (value >= 0xD800 && value < 0xE000)) refuse("\\u that is no one code point");
    return value;
  }
  if (accept(U'0')) {
    char32_t value = 0;
    for (int digits = 0; digits < 2 && !at_end() && peek() >= U'0' && peek() <= U'7'; ++digits) {
      value = value * 8 + (take() - U'0');
    }
    return value;
  }
  const bool has_a_meaning = (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || is_digit(c);
  if (has_a_meaning) return std::nullopt;
  ++at_;
  return c;
}

std::optional<icu::UnicodeSet> RegexScanner::escaped_set(char32_t letter) {
  if (letter == U'p' || letter == U'P') return property(letter == U'P');
  const bool negated = letter >= U'A' && letter <= U'Z';
  std::optional<icu::UnicodeSet> set = regex_set::of_letter(negated ? letter + 0x20 : letter);
  if (set && negated) set->complement();
  return set;
}

icu::UnicodeSet RegexScanner::property(bool negated) {
  if (!accept(U'{')) refuse("\\p without {");
  if (accept(U'^')) negated = !negated;
  std::string name;
  for (char32_t c = take(); c != U'}'; c = take()) unicode::append(name, c);
  std::optional<icu::UnicodeSet> set = regex_set::of_property(name);
  if (!set) refuse(fmt::format("the property {}", in_quotes(name)));
  return negated ? set->complement() : *set;
}

}  // namespace attnctl
