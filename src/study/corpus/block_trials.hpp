#pragma once

#include <memory>
#include <span>
#include <vector>

#include "study/corpus/corpus_blocks.hpp"
#include "study/cost_law.hpp"
#include "study/run_study.hpp"
#include "study/state/study_state.hpp"

namespace attnctl {

/// Times blocks the way a study computes them: after a warm-up, once per block, on all workers at once, so
/// that the workers slow each other down as in a study. The results are added to `state`, which must not be
/// used afterwards.
/// `seconds` is the approximate total time. If the blocks need longer, only the first sequences of each block
/// (at least one) are computed. Blocks for which no time is left are skipped, except the first.
/// BlockTrial::seconds is the mean over workers.
[[nodiscard]] std::vector<BlockTrial> try_blocks(const StudyRun& run, StudyState& state,
                                                 std::span<const std::shared_ptr<const CorpusBlock>> blocks,
                                                 double seconds);

}  // namespace attnctl
