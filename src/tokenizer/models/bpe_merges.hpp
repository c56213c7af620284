#pragma once

#include <cstddef>

#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/models/merge_table.hpp"
#include "tokenizer/models/token_table.hpp"

namespace attnctl {

/// The merges of a file as ids. Both sides and what they merge into must be in the vocabulary; the right side
/// loses `prefix` bytes, those of the mark that all but a word's first token carry. Throws Error(bad_input).
[[nodiscard]] MergeTable read_merges(const TokenizerFile& file, const TokenTable& vocabulary,
                                     std::size_t prefix);

/// Refuses a model that drops merges at random. Throws Error(bad_input).
void check_no_dropout(const PartConfig& model);

}  // namespace attnctl
