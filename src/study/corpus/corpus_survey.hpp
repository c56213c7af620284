#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "study/corpus/corpus_blocks.hpp"
#include "study/cost_law.hpp"

namespace attnctl {

/// What a corpus comes to, block by block, before anything of it is computed.
struct CorpusSurvey {
  std::vector<BlockSize> blocks;
  CorpusCounts counts;
  double read_seconds = 0;         // processor time of reading and tokenizing
  std::uint64_t pass_bytes = 0;    // of one worker in the block that takes most, weights apart
  std::uint64_t weight_bytes = 0;  // of all layers that are gone through, and the embeddings looked up
  /// Blocks that are unlike: with the most pairs, with the fewest for its tokens, one of the probe, with the
  /// fewest tokens, the first one. None twice; at least one, and no more than these are in memory at a time.
  std::vector<std::shared_ptr<const CorpusBlock>> samples;
};

[[nodiscard]] BlockSize size_of(const CorpusBlock& block);

/// What is asked of the pass, for its memory.
struct SurveyPass {
  const Model& model;
  const Selection& selection;
  Needs needs;
};

/// Reads a corpus to its end. `advance` is told the bytes that were read of the files since it was last
/// called. Throws as CorpusBlocks::next().
[[nodiscard]] CorpusSurvey survey_corpus(CorpusBlocks& corpus, const SurveyPass& pass,
                                         const std::function<void(std::uint64_t bytes)>& advance);

/// The first sequences of a block, with at most so many tokens; one at least. All of it where they fit.
[[nodiscard]] CorpusBlock first_of(const CorpusBlock& block, std::uint64_t tokens);

}  // namespace attnctl
