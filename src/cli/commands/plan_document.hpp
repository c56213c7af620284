#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/session.hpp"
#include "report/text/text.hpp"
#include "results/result.hpp"
#include "study/corpus/corpus_survey.hpp"
#include "study/shard_plan.hpp"

namespace attnctl::cli {

/// Bytes that a node needs.
struct NodeMemory {
  std::uint64_t process = 0;  // program, libraries, tokenizer
  std::uint64_t weights = 0;  // and the pages of their files that were read
  std::uint64_t worker = 0;   // a block and what is kept of it
  std::size_t workers = 0;

  [[nodiscard]] std::uint64_t node() const { return process + weights + workers * worker; }
};

/// What `plan` found out.
struct PlanResults {
  Value model;
  List files;
  Record settings;
  CorpusSurvey survey;
  std::vector<BlockTrial> trials;
  std::size_t trial_workers = 0;  // that computed at once
  StudyCost cost;
  NodeMemory memory;
  std::size_t nodes = 1;
  NodesPlan chosen;
  std::size_t suggested = 1;
  std::vector<ShardPlan> shards;
  std::vector<NodesPlan> choices;
};

[[nodiscard]] Document plan_document(const PlanResults& plan, const Session& session);
/// One of "shards", "choices" and "trials". Throws Error(usage) for another name.
[[nodiscard]] Table plan_table(const PlanResults& plan, const std::string& name);
[[nodiscard]] std::string plan_text(const PlanResults& plan, const TextOptions& style);

}  // namespace attnctl::cli
