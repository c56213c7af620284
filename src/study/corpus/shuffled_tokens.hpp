#pragma once

#include <cstdint>

#include "study/corpus/corpus_blocks.hpp"

namespace attnctl {

/// Returns the batch of a block with the ordinary tokens of each sequence in random order; all other tokens
/// keep their positions. Only the ids change, because a pass reads only them. The order depends only on the
/// seed, the repetition, the number of the block and the index of the sequence.
[[nodiscard]] Batch shuffled_tokens(const CorpusBlock& block, std::uint64_t seed, std::uint64_t repetition);

}  // namespace attnctl
