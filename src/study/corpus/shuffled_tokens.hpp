#pragma once

#include <cstdint>

#include "study/corpus/corpus_blocks.hpp"

namespace attnctl {

/// The sequences of a block with their ordinary tokens in random order, all others where they stood: the ids
/// alone, which is what a pass reads. Drawn from the seed, the repetition, the block's number and the
/// sequence's place in it, and from nothing else.
[[nodiscard]] Batch shuffled_tokens(const CorpusBlock& block, std::uint64_t seed, std::uint64_t repetition);

}  // namespace attnctl
