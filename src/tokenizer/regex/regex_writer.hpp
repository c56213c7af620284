#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <unicode/uniset.h>

#include "tokenizer/regex/regex_dialect.hpp"
#include "tokenizer/regex/regex_scanner.hpp"

namespace attnctl {

/// Writes a pattern of ICU, and knows whether it is but one set and its repeat.
class RegexWriter {
 public:
  void put(std::u16string_view text) { out_ += text; }
  void put(const icu::UnicodeSet& set);
  void put_literal(char32_t c);
  /// \b, or \B: the places between which the words of Oniguruma's \w begin or end.
  void put_word_boundary(bool negated);

  [[nodiscard]] std::size_t position() const { return out_.size(); }
  /// Puts a group round all from `start` on.
  void enclose(std::size_t start);
  /// Repeats what was written last, as often as it can be.
  void put_repeat(const RegexScanner::Repeat& repeat);

  [[nodiscard]] TranslatedPattern finish() const;

 private:
  std::u16string out_;
  std::optional<SetRun> only_run_;  // what only_set_ says
  std::u16string only_set_;         // the pattern while it is but one set
};

}  // namespace attnctl
