#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "input/batch.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// A word of a text and its range of code points. The words of a multiword token ("du": de, le) may share one
/// range.
struct TextWord {
  std::string form;
  TextRange range;
  friend bool operator==(const TextWord&, const TextWord&) = default;
};

/// Returns the number of code points of well-formed UTF-8.
[[nodiscard]] std::size_t count_code_points(std::string_view text);

/// Splits well-formed UTF-8 at white space.
[[nodiscard]] std::vector<TextWord> white_space_words(std::string_view text);

/// Returns the indices [first, last) of the words that overlap a range. The words must be in ascending order.
[[nodiscard]] std::pair<std::size_t, std::size_t> words_in(std::span<const TextWord> words, TextRange range);

/// The units of --by-word: each run of tokens of one word, and each token without a word (special tokens,
/// white space).
struct WordUnits {
  std::vector<std::size_t> unit_of_token;  // [n], ascending from 0 without gaps
  std::size_t count = 0;
};

/// Groups the tokens of a sequence by Sequence::words or, if that is empty, by the vocabulary's word marks.
/// Throws Error(bad_input) if the sequence has no tokens.
[[nodiscard]] WordUnits word_units(const Sequence& sequence, const Vocabulary& vocabulary);

/// Returns the sequence with units instead of tokens. A unit is special or a separator if one of its tokens
/// is.
[[nodiscard]] Sequence pooled_sequence(const Sequence& sequence, const WordUnits& units,
                                       const Vocabulary& vocabulary);

/// Returns the token positions that `word` names: a position ("7"), a word or token ("it"), or its n-th
/// occurrence ("it#2"). The first of these that matches counts: a whole word, with or without the punctuation
/// around it; a part of a word between punctuation ("mother" of "mother-in-law"); a token; then the same
/// ignoring ASCII case. Empty if nothing matches.
[[nodiscard]] std::vector<std::size_t> find_word(const Sequence& sequence, const Vocabulary& vocabulary,
                                                 std::string_view word);

}  // namespace attnctl
