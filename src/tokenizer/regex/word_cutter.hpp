#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {

/// A regular expression that many models share, as choices. Each cuts a text into words without gaps.
struct WordRules {
  /// A word of letters: ` ?\p{L}+`, `[^\r\n\p{L}\p{N}]?\p{L}+`, or the latter with capitals first
  /// (`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`, then `...+...*`).
  enum class Letters { after_space, after_any, cased };
  enum class Tail { none, newlines, newlines_and_slashes };

  Letters letters = Letters::after_space;
  bool contractions = true;  // 's 't 're 've 'm 'll 'd; case matters only with after_space
  unsigned digits = 0;       // most digits of a word; 0: any number, after an optional space
  Tail tail = Tail::none;    // what a word of punctuation ends with
  bool newlines = false;     // `\s*[\r\n]+`

  [[nodiscard]] std::string pattern() const;
  /// Returns the rules whose pattern() is exactly this one; nullopt if there are none.
  static std::optional<WordRules> of(std::string_view pattern);
};

/// Finds the matches of such an expression without Oniguruma.
class WordCutter {
 public:
  explicit WordCutter(const WordRules& rules);

  /// Returns the end of the match at byte `i` < size of well-formed UTF-8.
  [[nodiscard]] std::size_t end(std::string_view text, std::size_t i) const;

 private:
  [[nodiscard]] std::uint16_t bits(std::string_view text, std::size_t& i) const {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) return ++i, ascii_[byte];
    return classes_(unicode::next(text, i));
  }
  /// Returns the end of the characters from `i` on that have one of the bits `with` and none of `without`.
  [[nodiscard]] std::size_t run(std::string_view text, std::size_t i, std::uint16_t with,
                                std::uint16_t without) const;
  // Each of these matches one alternative at `i` and returns its end, or `i` if it does not match.
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
