#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/unicode/code_point_table.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {

/// How one of the expressions that many models share cuts a text into words. Each matches everywhere, so that
/// the words are the whole text.
struct WordRules {
  /// What a word of letters is: ` ?\p{L}+`, `[^\r\n\p{L}\p{N}]?\p{L}+`, or the latter with capitals first
  /// (`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`, then `...+...*`).
  enum class Letters { behind_space, behind_any, cased };
  enum class Tail { none, newlines, newlines_and_slashes };

  Letters letters = Letters::behind_space;
  bool contractions = true;  // 's 't 're 've 'm 'll 'd; in any case but for behind_space
  unsigned digits = 0;       // at most so many together; 0: any number, behind a space
  Tail tail = Tail::none;    // what punctuation takes with it
  bool newlines = false;     // `\s*[\r\n]+`

  /// The expression itself.
  [[nodiscard]] std::string pattern() const;
  /// The rules that an expression has, letter by letter; nullopt for any other.
  static std::optional<WordRules> of(std::string_view pattern);
};

/// Finds what the expression of some rules matches, without an engine.
class WordCutter {
 public:
  explicit WordCutter(const WordRules& rules);

  /// Where the match at byte `i` < size of well-formed UTF-8 ends.
  [[nodiscard]] std::size_t end(std::string_view text, std::size_t i) const;

 private:
  [[nodiscard]] std::uint16_t bits(std::string_view text, std::size_t& i) const {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) return ++i, ascii_[byte];
    return classes_(unicode::next(text, i));
  }
  /// The end of the characters from `i` on that have one of the bits `with`, and none of `without`.
  [[nodiscard]] std::size_t run(std::string_view text, std::size_t i, std::uint16_t with,
                                std::uint16_t without) const;
  [[nodiscard]] std::size_t contraction(std::string_view text, std::size_t i) const;
  [[nodiscard]] std::size_t letters(std::string_view text, std::size_t i) const;
  [[nodiscard]] std::size_t cased(std::string_view text, std::size_t i) const;
  [[nodiscard]] std::size_t capitals_and_smalls(std::string_view text, std::size_t i) const;
  [[nodiscard]] std::size_t capitals(std::string_view text, std::size_t i) const;
  [[nodiscard]] std::size_t digits(std::string_view text, std::size_t i) const;
  [[nodiscard]] std::size_t punctuation(std::string_view text, std::size_t i) const;
  [[nodiscard]] std::size_t white_space(std::string_view text, std::size_t i) const;

  WordRules rules_;
  const unicode::CodePointTable<std::uint16_t>& classes_;
  std::array<std::uint16_t, 128> ascii_{};
};

}  // namespace attnctl
