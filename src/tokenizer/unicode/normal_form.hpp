#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/unicode/code_point_table.hpp"

namespace attnctl {

/// A character of a rewritten text, and how many characters of the old text it takes up: 1 - change of them
/// where change <= 0 (its origin is the first), none where it is 1 (its origin is that of the one before).
struct ChangedCharacter {
  char32_t c = 0;
  int change = 0;
};

/// NFC, NFD, NFKC or NFKD of Unicode 9, as the reference has them: characters that came later are left alone.
class NormalForm {
 public:
  enum Kind { nfc, nfd, nfkc, nfkd };
  static const NormalForm& get(Kind kind);

  /// A run is a character and all after it that join it; a run of one that does not change stays as it is.
  /// The form of a text is that of its runs.
  [[nodiscard]] bool changes(char32_t c) const { return (bits_(c) & changes_bit) != 0; }
  [[nodiscard]] bool joins(char32_t c) const { return (bits_(c) & joins_bit) != 0; }

  /// Replaces `out` by the form of a run of characters.
  void apply(std::span<const char32_t> run, std::vector<ChangedCharacter>& out) const;

 private:
  explicit NormalForm(Kind kind);
  void compose(std::vector<ChangedCharacter>& run) const;
  static constexpr std::uint8_t changes_bit = 1;
  static constexpr std::uint8_t joins_bit = 2;
  Kind kind_;
  unicode::CodePointTable<std::uint8_t> bits_;
};

}  // namespace attnctl
