#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::tokenizer {

/// A regular expression of tokenizer.json, in the syntax of the library Oniguruma. Several threads may use
/// one expression at once. The expressions of GPT-2, Llama 3, Qwen 2, GPT-4o and similar models are matched
/// by WordCutter, which is faster than Oniguruma.
class Regex {
 public:
  /// The range of a match in a text: bytes [first, second).
  using Match = std::pair<std::size_t, std::size_t>;

  /// Compiles a pattern. Throws Error(bad_input) at where.place() if Oniguruma rejects the pattern.
  Regex(const PartConfig& where, std::string_view pattern);
  /// Returns an expression that matches exactly `string`, which must not be empty.
  static Regex literal(std::string string);

  /// Stores all matches in `matches`, from left to right, replacing the content of `matches`. `text` must be
  /// well-formed UTF-8. Skips an empty match at the end of the previous match. Throws Error(bad_input) if the
  /// search fails, for example by too much backtracking, or if \K makes matches overlap, and Error(limit) if
  /// Oniguruma would have to search a text of 2 GiB or more.
  void find_all(std::string_view text, std::vector<Match>& matches) const {
    matches.clear();
    append_all_(text, matches);
  }

 private:
  using AppendAll = std::function<void(std::string_view text, std::vector<Match>& matches)>;
  explicit Regex(AppendAll append_all) : append_all_(std::move(append_all)) {}
  AppendAll append_all_;
};

/// Reads the value under "pattern": {"String": text} or {"Regex": expression}. Throws Error(bad_input) if the
/// value has another form or the expression is invalid.
[[nodiscard]] Regex read_pattern(const PartConfig& config);

/// The options that describe one of the regular expressions used by many models to split a text into words.
/// The matches of these expressions cover the whole text.
struct WordRules {
  /// The expression for a word of letters. `after_space`: ` ?\p{L}+`. `after_any`:
  /// `[^\r\n\p{L}\p{N}]?\p{L}+`. `cased`: like `after_any`, but instead of `\p{L}+` capitals, then small
  /// letters (`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`); the next alternative has the
  /// same sets with `+` and `*` exchanged.
  enum class Letters { after_space, after_any, cased };
  enum class Tail { none, newlines, newlines_and_slashes };

  Letters letters = Letters::after_space;
  /// Match 's 't 're 've 'm 'll 'd: only in lower case if `letters` is after_space, otherwise in any case. If
  /// `letters` is cased, they are the end of a word instead of a word.
  bool contractions = true;
  unsigned digits = 0;     // 1 or 3: most digits in a word; 0: any number of digits, after an optional space
  Tail tail = Tail::none;  // characters that may follow punctuation in its word: [\r\n]* or [\r\n/]*
  bool newlines = false;   // the expression has the alternative `\s*[\r\n]+`

  [[nodiscard]] std::string pattern() const;  // the regular expression
  /// Returns the rules whose pattern() equals `pattern`; nullopt if there are none. Also knows one variant
  /// with possessive quantifiers (?+, ++) and returns the rules that have the same matches.
  static std::optional<WordRules> of(std::string_view pattern);
};

/// Finds the matches of the expression of a WordRules without Oniguruma.
struct WordCutter {
  explicit WordCutter(const WordRules& expression) : rules(expression), classes(unicode::classes()) {
    for (std::size_t i = 0; i < ascii.size(); ++i) ascii[i] = classes(static_cast<char32_t>(i));
  }

  /// Returns the end of the match that starts at byte `i` of a text, which must be well-formed UTF-8.
  [[nodiscard]] std::size_t end(std::string_view text, std::size_t i) const;

  WordRules rules;
  const unicode::CodePointTable<std::uint16_t>& classes;
  std::array<std::uint16_t, 128> ascii{};  // the first elements of `classes`
};

}  // namespace attnctl::tokenizer
