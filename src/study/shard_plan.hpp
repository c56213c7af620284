#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "study/cost_law.hpp"

namespace attnctl {

/// What a study takes, in seconds of one worker.
struct StudyCost {
  CostLaw law;
  double start = 0;  // of every shard: the model is opened, its weights and the corpus are hashed
  double read = 0;   // of every shard: the whole corpus is read and tokenized, by one worker at a time
};

struct ShardPlan {
  std::uint64_t blocks = 0;
  std::uint64_t sentences = 0;  // of the corpus, as the next two
  std::uint64_t tokens = 0;
  std::uint64_t pairs = 0;
  double seconds = 0;      // until it is done
  double cpu_seconds = 0;  // of all its workers
};

/// What so many nodes come to.
struct NodesPlan {
  std::size_t nodes = 1;
  double seconds = 0;      // of the slowest shard
  double cpu_seconds = 0;  // of all
  double imbalance = 0;    // the slowest shard over the mean of all, less 1
  double efficiency = 1;   // what one node alone would need, of the time that the nodes are taken
};

/// How long shards of a study take, with so many workers each: blocks are taken in turn by whoever is free,
/// and while one reads nobody else does.
class ShardPlanner {
 public:
  static constexpr double least_efficiency = 0.7;

  /// The blocks are borrowed.
  ShardPlanner(std::span<const BlockSize> blocks, const StudyCost& cost, std::size_t threads);

  /// Shards 1/nodes to nodes/nodes.
  [[nodiscard]] std::vector<ShardPlan> shards(std::size_t nodes) const;
  [[nodiscard]] NodesPlan nodes(std::size_t nodes) const;
  /// The largest number of nodes whose efficiency is `least_efficiency`, of those tried: all up to 64, then
  /// every tenth more, at last one for each block.
  [[nodiscard]] std::size_t suggested_nodes() const;

 private:
  [[nodiscard]] ShardPlan shard(std::size_t index, std::size_t count) const;

  std::span<const BlockSize> blocks_;
  StudyCost cost_;
  std::size_t threads_;
  std::vector<double> read_until_;  // seconds of reading up to the end of each block
  double alone_ = 0;                // seconds of one shard
};

}  // namespace attnctl
