#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace attnctl {

/// A word of a text: as it is written, and its characters. The forms that a multiword token stands for
/// ("du": de, le) may share them.
struct TextWord {
  std::string form;
  TextRange range;
  friend bool operator==(const TextWord&, const TextWord&) = default;
};

/// White_Space of Unicode.
[[nodiscard]] bool is_white_space(char32_t point);

/// Code points of well-formed UTF-8.
[[nodiscard]] std::size_t count_code_points(std::string_view text);

/// The stretches of a text (UTF-8) that white space parts.
[[nodiscard]] std::vector<TextWord> white_space_words(std::string_view text);

/// The words that share a character with [range): first and one behind the last; an empty interval where
/// there is none. Words begin and end in ascending order.
[[nodiscard]] std::pair<std::size_t, std::size_t> words_in(std::span<const TextWord> words, TextRange range);

}  // namespace attnctl
