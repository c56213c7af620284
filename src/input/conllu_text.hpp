#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "input/conllu.hpp"

namespace attnctl {

/// A number from 1 to 2^32 - 2 without leading zeros; nullopt for anything else.
[[nodiscard]] std::optional<std::size_t> parse_id(std::string_view text);

/// What stands in the text: a word, or the token of several.
struct Surface {
  std::string form;
  std::size_t first = 0;  // words [first, last]
  std::size_t last = 0;
  bool space_after = true;
  std::uint64_t line = 0;
};

/// Gives every word and multiword token of a sentence its characters, and the sentence its text: `text` where
/// the file has it, else the forms with spaces between. Throws Error(bad_input) where the forms are not the
/// text.
void place_words(const std::optional<std::string>& text, std::span<const Surface> surfaces,
                 const std::string& file, ConlluSentence& sentence);

}  // namespace attnctl
