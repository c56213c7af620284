#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "results/results.hpp"
#include "study/run_study.hpp"

namespace attnctl {

/// The properties of a block that its cost depends on.
struct BlockSize {
  std::uint64_t number = 0;
  std::uint64_t sentences = 0;  // sentences of the corpus
  std::uint64_t tokens = 0;     // tokens of all sequences
  std::uint64_t pairs = 0;      // sum of tokens^2 over the sequences
  bool probe = false;           // true for a block of the probe; it has no sentences
};

/// A timed block (or its first sequences), with the seconds that one worker needed.
struct BlockTrial {
  BlockSize size;
  double seconds = 0;
};

/// A linear cost model: seconds = token * tokens + pair * pairs.
/// `token` covers the products with weights, `pair` the work on patterns. Probe blocks have their own rate
/// (`probe_token`), because other measures process them.
struct CostLaw {
  double token = 0;
  double pair = 0;
  double probe_token = 0;
  double deviation = 0;  // largest |law / trial - 1| over the trials of the corpus

  [[nodiscard]] double seconds(const BlockSize& size) const;
};

/// Returns the least-squares fit of law / trial - 1. A term is left out if it would be negative, or if the
/// trials cannot separate it from the other term. The trials must include a block of the corpus; throws
/// std::logic_error otherwise. Without a probe trial, probe_token equals token.
[[nodiscard]] CostLaw fit_cost_law(std::span<const BlockTrial> trials);

/// The cost of a study, in seconds of one worker.
struct StudyCost {
  CostLaw law;
  double start = 0;  // per shard: opening the model, hashing the weights and the corpus
  double read = 0;   // per shard: reading and tokenizing the whole corpus, one worker at a time
};

struct ShardPlan {
  std::uint64_t blocks = 0;
  std::uint64_t sentences = 0;  // sentences of the corpus; tokens and pairs likewise
  std::uint64_t tokens = 0;
  std::uint64_t pairs = 0;
  double seconds = 0;      // wall time
  double cpu_seconds = 0;  // sum over its workers
};

/// The expected cost on a given number of nodes.
struct NodesPlan {
  std::size_t nodes = 1;
  double seconds = 0;      // of the slowest shard
  double cpu_seconds = 0;  // of all shards
  double imbalance = 0;    // slowest shard / mean of all shards - 1
  double efficiency = 1;   // seconds of one node / (nodes * seconds)
};

/// Predicts the time of the shards of a study on nodes with a given number of workers. The first free worker
/// takes the next block; one worker reads at a time.
class ShardPlanner {
 public:
  static constexpr double kLeastEfficiency = 0.7;

  /// `blocks` is borrowed.
  ShardPlanner(std::span<const BlockSize> blocks, const StudyCost& cost, std::size_t threads);

  /// Returns the plans of shards 1/nodes to nodes/nodes.
  [[nodiscard]] std::vector<ShardPlan> shards(std::size_t nodes) const;
  [[nodiscard]] NodesPlan nodes(std::size_t nodes) const;
  /// Returns the largest number of nodes whose efficiency is at least `kLeastEfficiency`. Tries all numbers
  /// up to 64, then steps of 10 %, then one node per block.
  [[nodiscard]] std::size_t suggested_nodes() const;

 private:
  [[nodiscard]] ShardPlan shard(std::size_t index, std::size_t count) const;

  std::span<const BlockSize> blocks_;
  StudyCost cost_;
  std::size_t threads_;
  std::vector<double> read_until_;  // time at which the reading of each block ends, in seconds
  double alone_ = 0;                // seconds with one shard
};

struct PlanRequest {
  std::size_t nodes = 1;
  double seconds = 10;  // approximate time of the trials
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();  // of the command
};

/// Reads the corpus, measures blocks, and divides the study among nodes. The threads of the pool are those of
/// a node; trials use at most all cores of this process. Returns the plan as tables, a document and text.
/// Seconds are rounded to four significant digits.
[[nodiscard]] Results plan_study(const StudyInput& input, const PlanRequest& request, Pool& pool,
                                 Progress& progress);

}  // namespace attnctl
