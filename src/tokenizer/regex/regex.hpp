#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/parts/part_config.hpp"

namespace attnctl::tokenizer {

/// A regular expression of tokenizer.json, in the syntax of the library Oniguruma. Several threads may use
/// one expression at once.
///
/// The expressions of GPT-2, Llama 3, Qwen 2, GPT-4o and similar models are matched by WordCutter instead of
/// Oniguruma. With the expression of Llama 3, tokenizing 1.1 MB then takes 155 ms instead of 321 ms on one
/// core.
class Regex {
 public:
  /// The range of a match in a text: bytes [first, second).
  using Match = std::pair<std::size_t, std::size_t>;

  /// Compiles a pattern. Throws Error(bad_input), with the position of `where`, if Oniguruma rejects the
  /// pattern.
  Regex(const PartConfig& where, std::string_view pattern);
  /// Returns an expression that matches exactly `string`, which must not be empty.
  static Regex literal(std::string string);

  /// Stores all matches in `matches`, from left to right, replacing the content of `matches`. `text` must be
  /// well-formed UTF-8. Skips an empty match at the end of the previous match. Throws Error(bad_input) if the
  /// search needs too much backtracking, or if \K makes matches overlap.
  void find_all(std::string_view text, std::vector<Match>& matches) const;
  /// Returns a copy of `text` in which each match is replaced by `content`. Throws like find_all().
  [[nodiscard]] std::string replace_all(std::string_view text, std::string_view content) const;

 private:
  struct Program;
  explicit Regex(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

/// Reads the value under "pattern": {"String": text} or {"Regex": expression}. Throws Error(bad_input) if it
/// has another form or the expression is invalid.
[[nodiscard]] Regex read_pattern(const PartConfig& config);

}  // namespace attnctl::tokenizer
