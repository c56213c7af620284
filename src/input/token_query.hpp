#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// Returns the token positions that `word` names: a position ("7"), a word or token ("it"), or its n-th
/// occurrence ("it#2"). The first of these that matches counts: a whole word, with or without the punctuation
/// around it; a part of a word between punctuation ("mother" of "mother-in-law"); a token; then the same
/// ignoring ASCII case. Empty if nothing matches.
[[nodiscard]] std::vector<std::size_t> find_word(const Sequence& sequence, const Vocabulary& vocabulary,
                                                 std::string_view word);

}  // namespace attnctl
