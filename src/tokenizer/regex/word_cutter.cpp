#include "tokenizer/regex/regex.hpp"

namespace attnctl::tokenizer {
namespace {

using Letters = WordRules::Letters;
using Tail = WordRules::Tail;

constexpr std::uint16_t kAny = 0xFFFF;
constexpr std::uint16_t kLetter = unicode::regex_letter;
constexpr std::uint16_t kNumber = unicode::regex_number;
constexpr std::uint16_t kNoClass = 1U << 15U;  // bit that run_end() gives every character
constexpr std::uint16_t kNotPunctuation = unicode::white_space | kLetter | kNumber;

bool is_newline(char c) {
  return c == '\r' || c == '\n';
}

/// An expression with possessive quantifiers (?+, ++). It has the same matches as kPossessiveRules.
constexpr std::string_view kPossessivePattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr WordRules kPossessiveRules = {Letters::after_any, true, 3, Tail::newlines, true};

/// Returns the unicode::Class bits of the character at byte `i` and moves `i` to the next character.
std::uint16_t class_bits(const WordCutter& cutter, std::string_view text, std::size_t& i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  if (byte < 0x80) return ++i, cutter.ascii[byte];
  return cutter.classes(unicode::next(text, i));
}

/// Returns the end of the longest run of characters from byte `i` on that have at least one of the class bits
/// `with` and none of the class bits `without`.
std::size_t run_end(const WordCutter& cutter, std::string_view text, std::size_t i, std::uint16_t with,
                    std::uint16_t without) {
  while (i < text.size()) {
    std::size_t after = i;
    const auto found = static_cast<std::uint16_t>(class_bits(cutter, text, after) | kNoClass);
    if ((found & with) == 0 || (found & without) != 0) break;
    i = after;
  }
  return i;
}

// Each function below tries one or several alternatives of the expression, or a part of one, at byte `i`. It
// returns the end of the match, or `i` if there is none.

std::size_t contraction_end(const WordCutter& cutter, std::string_view text, std::size_t i) {
  if (!cutter.rules.contractions || i == text.size() || text[i] != '\'') return i;
  const bool any_case = cutter.rules.letters != Letters::after_space;
  std::string_view rest = text.substr(i + 1);
  if (any_case && rest.starts_with("\u017F")) return i + 3;  // (?i) matches U+017F, the long s, like s
  const auto letter = [&](std::size_t at) {
    const char c = at < rest.size() ? rest[at] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 0x20) : c;
  };
  const char first = letter(0);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
  const char second = letter(1);
  const bool two = (first == 'l' && second == 'l') || ((first == 'r' || first == 'v') && second == 'e');
  return two ? i + 3 : i;
}

std::size_t letters_end(const WordCutter& cutter, std::string_view text, std::size_t i) {
  std::size_t after = i;
  const std::uint16_t first = class_bits(cutter, text, after);
  if ((first & kLetter) != 0) return run_end(cutter, text, after, kLetter, 0);
  const bool taken = cutter.rules.letters == Letters::after_space
                         ? text[i] == ' '
                         : !is_newline(text[i]) && (first & kNumber) == 0;
  if (!taken) return i;
  const std::size_t end = run_end(cutter, text, after, kLetter, 0);
  return end > after ? end : i;
}

std::size_t capitals_and_smalls_end(const WordCutter& cutter, std::string_view text, std::size_t i) {
  // End of the last character that is in both the set of capitals and the set of small letters.
  std::size_t last_small = i;
  std::size_t end = i;
  while (end < text.size()) {
    std::size_t after = end;
    const std::uint16_t found = class_bits(cutter, text, after);
    if ((found & unicode::regex_capital) == 0) break;
    end = after;
    if ((found & unicode::regex_small) != 0) last_small = end;
  }
  const std::size_t smalls = run_end(cutter, text, end, unicode::regex_small, 0);
  return smalls > end ? smalls : last_small;
}

std::size_t capitals_end(const WordCutter& cutter, std::string_view text, std::size_t i) {
  const std::size_t end = run_end(cutter, text, i, unicode::regex_capital, 0);
  return end > i ? run_end(cutter, text, end, unicode::regex_small, 0) : i;
}

std::size_t cased_end(const WordCutter& cutter, std::string_view text, std::size_t i) {
  std::size_t after = i;
  const bool before = !is_newline(text[i]) && (class_bits(cutter, text, after) & (kLetter | kNumber)) == 0;
  const auto end_of = [&](auto word) {
    std::size_t end = before ? word(cutter, text, after) : after;
    if (end > after) return contraction_end(cutter, text, end);
    end = word(cutter, text, i);
    return end > i ? contraction_end(cutter, text, end) : i;
  };
  const std::size_t end = end_of(capitals_and_smalls_end);
  return end > i ? end : end_of(capitals_end);
}

std::size_t digits_end(const WordCutter& cutter, std::string_view text, std::size_t i) {
  if (cutter.rules.digits == 0) {
    const std::size_t begin = text[i] == ' ' ? i + 1 : i;
    const std::size_t end = run_end(cutter, text, begin, kNumber, 0);
    return end > begin ? end : i;
  }
  std::size_t end = i;
  for (unsigned count = 0; count < cutter.rules.digits && end < text.size(); ++count) {
    std::size_t after = end;
    if ((class_bits(cutter, text, after) & kNumber) == 0) break;
    end = after;
  }
  return end;
}

std::size_t punctuation_end(const WordCutter& cutter, std::string_view text, std::size_t i) {
  const std::size_t begin = text[i] == ' ' ? i + 1 : i;
  std::size_t end = run_end(cutter, text, begin, kAny, kNotPunctuation);
  if (end == begin) return i;
  const bool slashes = cutter.rules.tail == Tail::newlines_and_slashes;
  const auto in_tail = [&](char c) { return is_newline(c) || (slashes && c == '/'); };
  while (cutter.rules.tail != Tail::none && end < text.size() && in_tail(text[end])) ++end;
  return end;
}

std::size_t white_space_end(const WordCutter& cutter, std::string_view text, std::size_t i) {
  const std::size_t end = run_end(cutter, text, i, unicode::white_space, 0);
  if (cutter.rules.newlines) {
    const std::size_t newline = text.substr(i, end - i).find_last_of("\r\n");
    if (newline != std::string_view::npos) return i + newline + 1;
  }
  if (end == text.size()) return end;
  // \s+(?!\S) leaves the last white-space character to the next match. If it is the only one, \s+ matches it.
  std::size_t last = end;
  unicode::previous(text, last);
  return last > i ? last : end;
}

}  // namespace

std::string WordRules::pattern() const {
  constexpr std::string_view capital = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
  constexpr std::string_view small = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  const std::string endings = letters == Letters::after_space ? "'s|'t|'re|'ve|'m|'ll|'d"
                              : contractions                  ? "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
                                                              : "";
  const std::string before = R"([^\r\n\p{L}\p{N}]?)";
  std::string text;
  if (letters == Letters::cased) {
    const std::string ending = contractions ? endings + '?' : "";
    text = before;
    text.append(capital).append("*").append(small).append("+").append(ending).append("|");
    text.append(before).append(capital).append("+").append(small).append("*").append(ending);
  } else {
    if (contractions) text = endings + '|';
    text += letters == Letters::after_space ? " ?" : before;
    text += R"(\p{L}+)";
  }
  text += digits == 0 ? R"(| ?\p{N}+)" : digits == 1 ? R"(|\p{N})" : R"(|\p{N}{1,3})";
  text += R"(| ?[^\s\p{L}\p{N}]+)";
  if (tail != Tail::none) text += tail == Tail::newlines ? R"([\r\n]*)" : R"([\r\n/]*)";
  if (newlines) text += R"(|\s*[\r\n]+)";
  return text + R"(|\s+(?!\S)|\s+)";
}

std::optional<WordRules> WordRules::of(std::string_view pattern) {
  if (pattern == kPossessivePattern) return kPossessiveRules;
  for (const Letters letters : {Letters::after_space, Letters::after_any, Letters::cased})
    for (const bool contractions : {true, false})
      for (const unsigned digits : {0U, 1U, 3U})
        for (const Tail tail : {Tail::none, Tail::newlines, Tail::newlines_and_slashes})
          for (const bool newlines : {true, false}) {
            const WordRules rules{letters, contractions, digits, tail, newlines};
            if (rules.pattern() == pattern) return rules;
          }
  return std::nullopt;
}

std::size_t WordCutter::end(std::string_view text, std::size_t i) const {
  std::size_t end = i;
  if (rules.letters == Letters::cased) {
    end = cased_end(*this, text, i);
  } else {
    end = contraction_end(*this, text, i);
    if (end == i) end = letters_end(*this, text, i);
  }
  if (end == i) end = digits_end(*this, text, i);
  if (end == i) end = punctuation_end(*this, text, i);
  return end > i ? end : white_space_end(*this, text, i);
}

}  // namespace attnctl::tokenizer
