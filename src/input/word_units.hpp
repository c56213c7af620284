#pragma once

#include <cstddef>
#include <vector>

#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// The words of one sequence, in the place of its tokens. A run of tokens of the same word is a unit; a token
/// of no word (special tokens, blanks) is a unit of its own.
struct WordUnits {
  std::vector<std::size_t> unit_of_token;  // [n], ascending from 0 without gaps
  std::size_t count = 0;
};

/// The words of a sequence: Sequence::words, else what the marks of its tokens tell. Throws Error(bad_input)
/// where the sequence has no tokens.
[[nodiscard]] WordUnits word_units(const Sequence& sequence, const Vocabulary& vocabulary);

/// The sequence with its words for tokens: what results by word are about. A unit is special, or a separator,
/// where its tokens are.
[[nodiscard]] Sequence pooled_sequence(const Sequence& sequence, const WordUnits& units,
                                       const Vocabulary& vocabulary);

}  // namespace attnctl
