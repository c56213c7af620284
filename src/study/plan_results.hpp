#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "results/results.hpp"
#include "study/corpus/block_trials.hpp"
#include "study/corpus/corpus_survey.hpp"
#include "study/shard_plan.hpp"

namespace attnctl {

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
