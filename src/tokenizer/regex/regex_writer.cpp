#include "tokenizer/regex/regex_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tokenizer/regex/regex_set.hpp"

namespace attnctl {

void RegexWriter::put(const icu::UnicodeSet& set) {
  const bool first = out_.empty();
  out_ += regex_set::to_pattern(set);
  if (!first) return;
  only_run_ = SetRun{set, 1, 1};
  only_set_ = out_;
}

void RegexWriter::put_literal(char32_t c) {
  if (out_.empty()) return put(icu::UnicodeSet(static_cast<UChar32>(c), static_cast<UChar32>(c)));
  const bool plain =
      (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9') || c == U' ';
  if (plain) {
    out_ += static_cast<char16_t>(c);
    return;
  }
  const std::string hex = fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(c));
  out_.append(hex.begin(), hex.end());
}

void RegexWriter::put_word_boundary(bool negated) {
  const std::u16string word = regex_set::to_pattern(regex_set::word_by_itself());
  const auto side = [&](const char16_t* look) { return look + word + u')'; };
  const std::u16string before = side(u"(?<=");
  const std::u16string not_before = side(u"(?<!");
  const std::u16string behind = side(u"(?=");
  const std::u16string not_behind = side(u"(?!");
  out_ += u"(?:" + before + (negated ? behind : not_behind) + u'|' + not_before +
          (negated ? not_behind : behind) + u')';
}

void RegexWriter::enclose(std::size_t start) {
  out_.insert(start, u"(?:");
  out_ += u')';
}

void RegexWriter::put_repeat(const RegexScanner::Repeat& repeat) {
  const bool of_only_set = only_run_ && out_ == only_set_;
  std::string text;
  if (repeat.most == RegexScanner::no_limit) {
    text = repeat.least == 0 ? "*" : repeat.least == 1 ? "+" : fmt::format("{{{},}}", repeat.least);
  } else if (repeat.least == 0 && repeat.most == 1) {
    text = "?";
  } else {
    text = fmt::format("{{{},{}}}", repeat.least, repeat.most);
  }
  out_.append(text.begin(), text.end());
  // A run has a character at least.
  if (!of_only_set || repeat.least == 0) return;
  only_run_ = SetRun{only_run_->set, repeat.least, repeat.most};
  only_set_ = out_;
}

TranslatedPattern RegexWriter::finish() const {
  // ICU knows no empty pattern.
  if (out_.empty()) return {u"(?:)", std::nullopt};
  return {out_, out_ == only_set_ ? only_run_ : std::nullopt};
}

}  // namespace attnctl
