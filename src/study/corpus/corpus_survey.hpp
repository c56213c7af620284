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

/// The size of a corpus, per block, before any block is computed.
struct CorpusSurvey {
  std::vector<BlockSize> blocks;
  CorpusCounts counts;
  double read_seconds = 0;         // processor time of reading and tokenizing
  std::uint64_t pass_bytes = 0;    // of one worker, without weights, in the largest block
  std::uint64_t weight_bytes = 0;  // all layers of the pass, and the embedding rows that are used
  /// Distinct blocks for trials: the one with the most pairs, the one with the fewest pairs per token, one of
  /// the probe, the one with the fewest tokens, and the first one. There is at least one. At most these
  /// five blocks are kept in memory.
  std::vector<std::shared_ptr<const CorpusBlock>> samples;
};

[[nodiscard]] BlockSize size_of(const CorpusBlock& block);

/// The parts of a pass that determine its memory.
struct SurveyPass {
  const Model& model;
  const Selection& selection;
  Needs needs;
};

/// Reads a corpus to its end. Calls `advance` with the number of bytes read since the last call. Throws the
/// errors of CorpusBlocks::next().
[[nodiscard]] CorpusSurvey survey_corpus(CorpusBlocks& corpus, const SurveyPass& pass,
                                         const std::function<void(std::uint64_t bytes)>& advance);

/// Returns the first sequences of a block, with at most `tokens` tokens in total, but at least one sequence.
[[nodiscard]] CorpusBlock first_of(const CorpusBlock& block, std::uint64_t tokens);

}  // namespace attnctl
