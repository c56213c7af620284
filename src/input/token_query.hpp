#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// The positions that a person means by `word` in a sequence: a position ("7"), a word or a token ("it", as
/// one would type it or as the vocabulary has it), or a later occurrence ("it#2"). A word of several pieces
/// gives all of them. A word is preferred, with or without the punctuation around it ("tired" is in
/// "tired."), then a part of a word between punctuation ("mother" of "mother-in-law"), then a token, then all
/// of them without regard to ASCII case. Empty where it does not occur.
[[nodiscard]] std::vector<std::size_t> find_word(const Sequence& sequence, const Vocabulary& vocabulary,
                                                 std::string_view word);

}  // namespace attnctl
