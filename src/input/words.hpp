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

namespace attnctl::input {

/// A word of a text and its range in the text, in code points. The words of a multiword token may have the
/// same range: the words "de" and "le" of "du" both have the range of "du".
struct TextWord {
  std::string form;
  tokenizer::TextRange range;
  friend bool operator==(const TextWord&, const TextWord&) = default;
};

/// Splits a text at white space and returns its words. The text must be well-formed UTF-8.
[[nodiscard]] std::vector<TextWord> white_space_words(std::string_view text);

/// Returns the indices {first, last} of the words [first, last) that overlap a range of code points. If
/// there are none, first equals last. The words must be in ascending order.
[[nodiscard]] std::pair<std::size_t, std::size_t> words_in(std::span<const TextWord> words,
                                                           tokenizer::TextRange range);

/// The groups of tokens that --by-word merges. The consecutive tokens of one word are a unit. A token without
/// a word (a special token or white space) is a separate unit.
struct WordUnits {
  /// [n], the index of each token's unit; ascending from 0 without gaps.
  std::vector<std::size_t> unit_of_token;
  std::size_t count = 0;
};

/// Returns the units of a sequence. Words are those of Sequence::words or, if Sequence::words is empty, those
/// of Vocabulary::words. Throws Error(bad_input) if the sequence has no token strings or has separate inputs
/// for the keys.
[[nodiscard]] WordUnits word_units(const Sequence& sequence, const tokenizer::Vocabulary& vocabulary);

/// Returns a sequence whose tokens are the units of `sequence`, without ids, offsets and masks. A unit is
/// special (or a separator) if one of its tokens is special (or a separator).
[[nodiscard]] Sequence pooled_sequence(const Sequence& sequence, const WordUnits& units,
                                       const tokenizer::Vocabulary& vocabulary);

/// Returns the positions of the tokens that `word` names. `word` names a position ("7"), the first occurrence
/// of a word or token ("it"), or the n-th occurrence ("it#2", unless this is a token, as "##1" may be). The
/// search first compares whole words, with or without the punctuation around them, then the parts of words
/// between punctuation ("mother" in "mother-in-law"), then tokens. If nothing is equal, the search repeats
/// these steps ignoring ASCII case. The first step that finds an equal word decides. Returns an empty vector
/// if nothing matches, or if the position or the occurrence does not exist. If Sequence::word_texts is empty,
/// the words are those of Vocabulary::words, and only whole words and tokens are compared.
[[nodiscard]] std::vector<std::size_t> find_word(const Sequence& sequence,
                                                 const tokenizer::Vocabulary& vocabulary,
                                                 std::string_view word);

/// The tokens that have the characters of a part of a text.
struct TextPart {
  std::vector<std::size_t> positions;
  bool exact = true;  // false if a token also has other characters of the text
};

/// Returns the tokens of the first occurrence of `part` in the text or, if it is not there, in the second
/// text of a pair. Returns no positions if there is none, or if the text or the tokens' offsets are unknown.
[[nodiscard]] TextPart find_in_text(const Sequence& sequence, std::string_view part);

}  // namespace attnctl::input
