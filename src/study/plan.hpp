#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "results/results.hpp"
#include "study/corpus/corpus_blocks.hpp"
#include "study/run_study.hpp"
#include "study/shard_plan.hpp"
#include "study/state/study_state.hpp"

// The parts of `attnctl plan`: survey the corpus, time some blocks, print the plan.
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

/// Times blocks the way a study computes them: after a warm-up, once per block, on all workers at once, so
/// that the workers slow each other down as in a study. The results are added to `state`, which must not be
/// used afterwards.
/// `seconds` is the approximate total time. If the blocks need longer, only the first sequences of each block
/// (at least one) are computed. Blocks for which no time is left are skipped, except the first.
/// BlockTrial::seconds is the mean over workers.
[[nodiscard]] std::vector<BlockTrial> try_blocks(const StudyRun& run, StudyState& state,
                                                 std::span<const std::shared_ptr<const CorpusBlock>> blocks,
                                                 double seconds);

/// Memory that one node needs, in bytes.
struct NodeMemory {
  std::uint64_t process = 0;  // program, libraries, tokenizer
  std::uint64_t weights = 0;  // including the resident pages of the weight files
  std::uint64_t worker = 0;   // per worker: a block and its measures
  std::size_t workers = 0;

  [[nodiscard]] std::uint64_t node() const { return process + weights + workers * worker; }
};

/// Measurements of a study and its division among nodes.
struct StudyPlan {
  Value model;
  List files;
  Record settings;
  CorpusSurvey survey;
  std::vector<BlockTrial> trials;
  std::size_t trial_workers = 0;  // number of workers that ran the trials
  StudyCost cost;
  NodeMemory memory;
  std::size_t nodes = 1;
  NodesPlan chosen;
  std::size_t suggested = 1;
  std::vector<ShardPlan> shards;
  std::vector<NodesPlan> choices;
};

/// Returns the plan as tables, a document and text. Seconds are rounded to four significant digits.
[[nodiscard]] Results plan_results(const StudyPlan& plan);

}  // namespace attnctl
