#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <unicode/uniset.h>

#include "tokenizer/files/part_config.hpp"

namespace attnctl {

/// Reads a pattern of Oniguruma's dialect character by character, and refuses what is damaged or not
/// supported: every refuse...() throws Error(bad_input).
class RegexScanner {
 public:
  RegexScanner(const PartConfig& where, std::string_view pattern);

  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void refuse_escape(char32_t letter) const;
  [[noreturn]] void refuse_group() const;

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }
  void go_to(std::size_t position) { at_ = position; }
  [[nodiscard]] char32_t peek() const { return text_[at_]; }
  /// Does `text` follow?
  [[nodiscard]] bool looking_at(std::u32string_view text) const {
    return std::u32string_view(text_).substr(at_).starts_with(text);
  }
  char32_t take();
  bool accept(char32_t c);

  /// Has the pattern a named group anywhere?
  [[nodiscard]] bool has_names() const;
  /// name> or 'name' behind (?<, (?'
  bool accept_name();
  /// = ! <= <! behind (?: how such a group begins; nullptr where none does.
  const char16_t* accept_look_around();

  struct Repeat {
    std::uint32_t least = 0;
    std::uint32_t most = 0;
    bool fixed = false;  // {n}
  };
  static constexpr std::uint32_t no_limit = std::numeric_limits<std::uint32_t>::max();
  /// * + ? {n} {n,} {,m} {n,m}; anything else in braces is plain text.
  std::optional<Repeat> accept_repeat();
  [[nodiscard]] bool is_interval(std::size_t position) const { return text_[position] == U'{'; }

  /// Behind a backslash: an escape that stands for one character, inside of classes as well.
  std::optional<char32_t> escaped_character();
  /// \s, \D, \p{...} and so on, whose letter is read already; nullopt for another letter.
  std::optional<icu::UnicodeSet> escaped_set(char32_t letter);

 private:
  std::optional<std::uint32_t> number();
  char32_t hexadecimal(std::size_t at_most);
  char32_t code_point_in_braces();
  icu::UnicodeSet property(bool negated);

  const PartConfig& where_;
  std::string_view pattern_;
  std::u32string text_;
  std::size_t at_ = 0;
};

}  // namespace attnctl
