#include "tokenizer/regex/regex_class.hpp"

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tokenizer/regex/regex_set.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

using icu::UnicodeSet;

constexpr int deepest_class = 50;

class ClassReader {
 public:
  ClassReader(RegexScanner& scanner, bool ignore_case) : in_(scanner), ignore_case_(ignore_case) {}

  /// Up to the ] of the class.
  UnicodeSet read(int depth) {
    if (depth > deepest_class) in_.refuse("classes in more than 50 others");
    const bool negated = in_.accept(U'^');
    UnicodeSet all(0, 0x10FFFF);  // what stands before the last &&
    UnicodeSet items;
    bool first = true;
    Last last = Last::nothing;
    while (first || !in_.accept(U']')) {
      if (in_.looking_at(U"&&")) {
        need_set("&&");
        in_.take();
        in_.take();
        all.retainAll(items);
        items.clear();
        last = Last::nothing;
      } else {
        last = item(items, last, depth);
      }
      first = false;
    }
    all.retainAll(items);
    if (ignore_case_ && !regex_set::close_over_case(all)) {
      in_.refuse("(?i) with a class of letters that equal several others, as ß does");
    }
    return negated ? all.complement() : all;
  }

 private:
  enum class Last { nothing, character, range, set };

  /// Case is closed over once for a class: what that means between classes is not asked here.
  void need_set(std::string_view what) const {
    if (ignore_case_) in_.refuse(fmt::format("{} in a class under (?i)", what));
  }

  Last item(UnicodeSet& items, Last last, int depth) {
    if (in_.looking_at(U"-") && last == Last::set && !in_.looking_at(U"-]")) {
      in_.refuse("a range that begins with a set");
    }
    const bool plain_dash = in_.looking_at(U"-") && last == Last::range;
    const char32_t c = in_.take();
    if (c == U'[') {
      items.addAll(nested(depth));
      return Last::set;
    }
    char32_t from = c;
    if (c == U'\\') {
      const std::optional<char32_t> character = escaped();
      if (!character) {
        items.addAll(set());
        return Last::set;
      }
      from = *character;
    }
    if (plain_dash || !in_.looking_at(U"-") || in_.looking_at(U"-]") || in_.looking_at(U"-&&")) {
      items.add(static_cast<UChar32>(from));
      return Last::character;
    }
    in_.take();
    const char32_t to = range_end();
    if (to < from) in_.refuse("a range that ends before it begins");
    items.add(static_cast<UChar32>(from), static_cast<UChar32>(to));
    return Last::range;
  }

  char32_t range_end() {
    const char32_t c = in_.take();
    if (c == U'[') in_.refuse("a range that ends with a class");
    if (c != U'\\') return c;
    const std::optional<char32_t> character = escaped();
    if (!character) in_.refuse("a range that ends with a set");
    return *character;
  }

  std::optional<char32_t> escaped() {
    if (in_.accept(U'b')) return U'\b';
    return in_.escaped_character();
  }

  UnicodeSet set() {
    const char32_t letter = in_.take();
    std::optional<UnicodeSet> found = in_.escaped_set(letter);
    if (!found) in_.refuse_escape(letter);
    return *found;
  }

  UnicodeSet nested(int depth) {
    if (!in_.accept(U':')) {
      need_set("a class");
      return read(depth + 1);
    }
    const bool negated = in_.accept(U'^');
    std::string name;
    for (char32_t c = in_.take(); c != U':'; c = in_.take()) unicode::append(name, c);
    std::optional<UnicodeSet> found = regex_set::of_posix_bracket(name);
    if (!found || !in_.accept(U']')) in_.refuse(fmt::format("[:{}:]", name));
    return negated ? found->complement() : *found;
  }

  RegexScanner& in_;
  bool ignore_case_;
};

}  // namespace

icu::UnicodeSet read_class(RegexScanner& scanner, bool ignore_case) {
  return ClassReader(scanner, ignore_case).read(0);
}

}  // namespace attnctl
