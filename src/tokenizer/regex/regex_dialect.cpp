#include "tokenizer/regex/regex_dialect.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tokenizer/regex/regex_class.hpp"
#include "tokenizer/regex/regex_scanner.hpp"
#include "tokenizer/regex/regex_set.hpp"
#include "tokenizer/regex/regex_writer.hpp"

namespace attnctl {
namespace {

using icu::UnicodeSet;

constexpr int deepest_group = 100;
constexpr std::uint32_t largest_count = 100000;  // Oniguruma's own limit

/// Options that a pattern switches on and off.
struct Options {
  bool ignore_case = false;
  bool dot_matches_all = false;
};

/// Writes the pattern of ICU while it reads the other one from left to right.
class Translator {
 public:
  explicit Translator(RegexScanner& scanner) : in_(scanner), has_names_(scanner.has_names()) {}

  TranslatedPattern run() {
    alternatives({}, 0);
    if (!in_.at_end()) in_.refuse("unmatched )");
    if (largest_reference_ > groups_) in_.refuse("a back-reference to a group that is not there");
    return writer_.finish();
  }

 private:
  /// Everything up to the ) of the group, or the end.
  void alternatives(Options options, int depth) {
    if (depth > deepest_group) in_.refuse(fmt::format("groups in more than {} others", deepest_group));
    std::size_t opened = 0;
    run_.clear();
    while (!in_.at_end() && in_.peek() != U')') {
      if (in_.accept(U'|')) {
        run_.clear();
        writer_.put(u"|");
      } else if (isolated_options(options)) {
        // They hold up to the end of the group, alternatives and all.
        writer_.put(u"(?:");
        ++opened;
      } else {
        term(options, depth);
      }
    }
    for (; opened > 0; --opened) writer_.put(u")");
    run_.clear();
  }

  void term(const Options& options, int depth) {
    const std::size_t start = writer_.position();
    const bool repeatable = atom(options, depth);
    while (quantifier(start, repeatable)) {
    }
  }

  /// Returns whether a quantifier may follow.
  bool atom(const Options& options, int depth) {
    if (in_.accept_repeat()) in_.refuse("nothing to repeat");
    const char32_t c = in_.take();
    if (c != U'(' && c != U'[' && c != U'\\' && c != U'.' && c != U'^' && c != U'$') {
      literal(c, options);
      return true;
    }
    if (c == U'\\') return escape(options);
    run_.clear();
    if (c == U'(') return group(options, depth);
    if (c == U'[') {
      writer_.put(read_class(in_, options.ignore_case));
    } else if (c == U'.') {
      writer_.put(options.dot_matches_all ? UnicodeSet(0, 0x10FFFF) : UnicodeSet(U'\n', U'\n').complement());
    } else {
      // At every line; but no line begins behind a \n that ends the text.
      writer_.put(c == U'^' ? u"(?:\\A|(?<=\\x{A})(?!\\z))" : u"(?=\\x{A}|\\z)");
      return false;
    }
    return true;
  }

  void literal(char32_t c, const Options& options) {
    const auto point = static_cast<UChar32>(c);
    UnicodeSet set(point, point);
    if (options.ignore_case) {
      run_ += c;
      if (!regex_set::close_over_case(set) || regex_set::folds_together(run_)) {
        in_.refuse("(?i) with letters that together equal one other, as ss does");
      }
    }
    if (set.size() > 1) return writer_.put(set);
    writer_.put_literal(c);
  }

  bool escape(const Options& options) {
    if (const std::optional<char32_t> c = in_.escaped_character()) {
      literal(*c, options);
      return true;
    }
    run_.clear();
    const char32_t c = in_.take();
    switch (c) {
      case U'w':
        writer_.put(regex_set::word_by_itself());
        return true;
      case U'W':
        writer_.put(UnicodeSet(regex_set::word_by_itself()).complement());
        return true;
      case U'N':
        writer_.put(UnicodeSet(U'\n', U'\n').complement());
        return true;
      case U'O':
        writer_.put(UnicodeSet(0, 0x10FFFF));
        return true;
      case U'R':
        writer_.put(u"(?>\\x{D}\\x{A}|[\\x{A}-\\x{D}\\x{85}\\x{2028}\\x{2029}])");
        return true;
      case U'A':
        writer_.put(u"\\A");
        return false;
      case U'z':
        writer_.put(u"\\z");
        return false;
      case U'Z':
        writer_.put(u"(?=\\x{A}?\\z)");
        return false;
      case U'b':
        writer_.put_word_boundary(false);
        return false;
      case U'B':
        writer_.put_word_boundary(true);
        return false;
      default:
        break;
    }
    if (c >= U'1' && c <= U'9') return back_reference(c, options);
    if (const std::optional<UnicodeSet> set = in_.escaped_set(c)) {
      writer_.put(*set);
      return true;
    }
    in_.refuse_escape(c);
  }

  bool back_reference(char32_t digit, const Options& options) {
    const bool longer = !in_.at_end() && in_.peek() >= U'0' && in_.peek() <= U'9';
    if (has_names_ || options.ignore_case || longer) {
      in_.refuse("a back-reference beside named groups, under (?i) or above 9");
    }
    const auto number = static_cast<int>(digit - U'0');
    if (number > largest_reference_) largest_reference_ = number;
    writer_.put(std::u16string(u"\\") + static_cast<char16_t>(digit));
    return true;
  }

  bool group(const Options& options, int depth) {
    if (in_.accept(U'*')) in_.refuse("(*...)");
    bool repeatable = true;
    Options inner = options;
    if (!in_.accept(U'?')) {
      ++groups_;
      writer_.put(has_names_ ? u"(?:" : u"(");
    } else if (in_.accept(U'#')) {
      while (!in_.accept(U')')) in_.take();
      writer_.put(u"(?:)");
      return false;
    } else if (const char16_t* look = in_.accept_look_around()) {
      writer_.put(look);
      repeatable = false;
    } else if (in_.accept(U'>')) {
      writer_.put(u"(?>");
    } else if (in_.accept(U':') || in_.accept_name()) {
      writer_.put(u"(?:");
    } else {
      switches(inner);
      if (!in_.accept(U':')) in_.refuse_group();
      writer_.put(u"(?:");
    }
    alternatives(inner, depth + 1);
    if (in_.at_end()) in_.refuse("unmatched (");
    in_.take();
    writer_.put(u")");
    return repeatable;
  }

  /// imx-imx behind (?
  void switches(Options& options) {
    bool on = true;
    for (;;) {
      if (in_.accept(U'-')) {
        on = false;
      } else if (in_.accept(U'i')) {
        options.ignore_case = on;
      } else if (in_.accept(U'm')) {
        options.dot_matches_all = on;
      } else if (!in_.at_end() && in_.peek() == U'x' && !on) {
        in_.take();
      } else {
        return;
      }
    }
  }

  /// (?i) and the like; leaves everything as it is where something else follows.
  bool isolated_options(Options& options) {
    const std::size_t begin = in_.position();
    Options changed = options;
    if (in_.accept(U'(') && in_.accept(U'?')) {
      const std::size_t first = in_.position();
      switches(changed);
      if (in_.position() > first && in_.accept(U')')) {
        options = changed;
        return true;
      }
    }
    in_.go_to(begin);
    return false;
  }

  bool quantifier(std::size_t start, bool repeatable) {
    const std::size_t begin = in_.position();
    const std::optional<RegexScanner::Repeat> repeat = in_.accept_repeat();
    if (!repeat) return false;
    if (!repeatable) in_.refuse("a repeat of what has no width");
    if (repeat->most < repeat->least || (repeat->least > largest_count) ||
        (repeat->most != RegexScanner::no_limit && repeat->most > largest_count)) {
      in_.refuse("a repeat {n,m} with n above m, or above 100000");
    }
    if (repeated_at_ == start && !repeated_interval_) in_.refuse("a repeat of a repeat");
    if (repeated_at_ == start) writer_.enclose(start);
    writer_.put_repeat(*repeat);
    const bool interval = in_.is_interval(begin);
    // Behind {n} a ? is a repeat of its own.
    if (!repeat->fixed && in_.accept(U'?')) {
      writer_.put(u"?");
    } else if (!interval && in_.accept(U'+')) {
      writer_.put(u"+");
    }
    repeated_at_ = start;
    repeated_interval_ = interval;
    return true;
  }

  RegexScanner& in_;
  const bool has_names_;  // then plain groups capture nothing
  RegexWriter writer_;
  std::u32string run_;  // letters one behind the other under (?i)
  int groups_ = 0;
  int largest_reference_ = 0;
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  std::size_t repeated_at_ = nowhere;  // start of the atom that has a quantifier already
  bool repeated_interval_ = false;     // {n,m}, which may be repeated again
};

}  // namespace

TranslatedPattern translate_pattern(const PartConfig& where, std::string_view pattern) {
  RegexScanner scanner(where, pattern);
  return Translator(scanner).run();
}

}  // namespace attnctl
