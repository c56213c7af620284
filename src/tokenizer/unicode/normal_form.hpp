#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {

/// A character of a normalized text. It replaces 1 - change characters of the old text and has the origin of
/// the first of them; with change 1 it replaces none and has the origin of the character before it.
struct ChangedCharacter {
  char32_t c = 0;
  int change = 0;
};

/// NFC, NFD, NFKC or NFKD of Unicode 9, the version of the reference. Later characters stay unchanged.
///
/// A text is normalized run by run. A run is a character and the characters after it that join it.
class NormalForm {
 public:
  enum Kind { nfc, nfd, nfkc, nfkd };
  template <Kind kind>
  static const NormalForm& get() {
    static const NormalForm form(kind);
    return form;
  }

  /// Returns whether a run of only `c` changes.
  [[nodiscard]] bool changes(char32_t c) const { return (bits_(c) & kChanges) != 0; }
  /// Returns whether `c` joins the run before it.
  [[nodiscard]] bool joins(char32_t c) const { return (bits_(c) & kJoins) != 0; }

  /// Normalizes a run of characters; replaces the content of `out`.
  void apply(std::span<const char32_t> run, std::vector<ChangedCharacter>& out) const;

 private:
  explicit NormalForm(Kind kind);
  void compose(std::vector<ChangedCharacter>& run) const;
  static constexpr std::uint8_t kChanges = 1;
  static constexpr std::uint8_t kJoins = 2;
  Kind kind_;
  unicode::CodePointTable<std::uint8_t> bits_;
};

}  // namespace attnctl
