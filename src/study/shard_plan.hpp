#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "study/cost_law.hpp"

namespace attnctl {

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
  static constexpr double least_efficiency = 0.7;

  /// `blocks` is borrowed.
  ShardPlanner(std::span<const BlockSize> blocks, const StudyCost& cost, std::size_t threads);

  /// Returns the plans of shards 1/nodes to nodes/nodes.
  [[nodiscard]] std::vector<ShardPlan> shards(std::size_t nodes) const;
  [[nodiscard]] NodesPlan nodes(std::size_t nodes) const;
  /// Returns the largest number of nodes whose efficiency is at least `least_efficiency`. Tries all numbers
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

}  // namespace attnctl
