#pragma once

#include <memory>
#include <span>
#include <vector>

#include "study/corpus/corpus_blocks.hpp"
#include "study/cost_law.hpp"
#include "study/run_study.hpp"
#include "study/state/study_state.hpp"

namespace attnctl {

/// Computes blocks as a study does, each once behind a warm-up and on all workers at once, which then slow
/// each other down as they do in a study, and adds them to a state that is of no use after. Takes about so
/// many seconds: where blocks take longer, the first of their sequences are computed, one at least; what
/// finds no time at all is left out, but not the first block. A trial's seconds are the mean over workers.
[[nodiscard]] std::vector<BlockTrial> try_blocks(const StudyRun& run, StudyState& state,
                                                 std::span<const std::shared_ptr<const CorpusBlock>> blocks,
                                                 double seconds);

}  // namespace attnctl
