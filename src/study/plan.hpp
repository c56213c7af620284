#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "results/results.hpp"
#include "study/block_groups.hpp"
#include "study/run_study.hpp"

namespace attnctl::study {

/// The properties of a block that determine its cost.
struct BlockSize {
  std::uint64_t number = 0;
  std::uint64_t sentences = 0;  // sentences of the corpus
  std::uint64_t tokens = 0;     // tokens of all sequences
  std::uint64_t pairs = 0;      // sum of tokens^2 over the sequences
  bool probe = false;           // true for a block of the probe, which has no sentences
  BlockMemory memory = {};      // set if a worker keeps the weights of one layer at a time
};

/// The measured processor time of one worker for a block or for the first sequences of a block.
struct BlockTrial {
  BlockSize size;
  double seconds = 0;
};

/// A linear cost model: seconds per token, per pair and per group of blocks. `token` is mostly the cost of
/// the products with model weights, `pair` the cost of the patterns. Probe blocks have their own cost: other
/// measures process them.
struct CostLaw {
  /// Reading the weights of all layers for one group; 0 if they stay in memory.
  double group = 0;
  double token = 0;
  double pair = 0;
  double probe_token = 0;
  double deviation = 0;  // largest |predicted / measured seconds - 1| over the trials with corpus blocks

  /// Returns the seconds of a block, without those of its group.
  [[nodiscard]] double seconds(const BlockSize& size) const {
    const auto tokens = static_cast<double>(size.tokens);
    return size.probe ? probe_token * tokens : token * tokens + pair * static_cast<double>(size.pairs);
  }
};

/// Fits the cost model to the trials with corpus blocks: minimises the sum of the squares of (predicted /
/// measured seconds - 1). `group` is CostLaw::group, a part of the time of each trial. Sets `token` or `pair`
/// to 0 if it would be negative, and `pair` to 0 if the trials do not determine it. Without a probe trial,
/// probe_token equals token. Throws std::logic_error without a corpus block.
[[nodiscard]] CostLaw fit_cost_law(std::span<const BlockTrial> trials, double group = 0);

/// The cost of a study, in seconds.
struct StudyCost {
  CostLaw law;
  /// Per shard: opening and loading the model, hashing the model and the corpus, and counting the tokens of
  /// the corpus if a measure needs these counts and no file gives them.
  double start = 0;
  double read = 0;  // per shard: reading and tokenizing the whole corpus, one worker at a time
};

struct ShardPlan {
  std::uint64_t blocks = 0;
  // The next three members are sums over the blocks of the corpus, without the probe.
  std::uint64_t sentences = 0;
  std::uint64_t tokens = 0;
  std::uint64_t pairs = 0;
  double seconds = 0;              // wall time
  double cpu_seconds = 0;          // sum over the workers of the shard
  std::uint64_t worker_bytes = 0;  // estimated memory of a worker for its largest group; 0 if weights stay
};

/// The expected cost on a given number of nodes.
struct NodesPlan {
  std::size_t nodes = 1;
  double seconds = 0;      // wall time of the slowest shard
  double cpu_seconds = 0;  // sum over all workers of all shards
  double imbalance = 0;    // slowest shard / mean of all shards - 1
  double efficiency = 1;   // seconds of one node / (nodes * seconds)
  double blocks_per_worker = 0;
};

/// Predicts the time of the shards of a study on nodes with `threads` workers. The first free worker takes
/// the next block, or group of blocks. Only one worker reads the corpus at a time.
class ShardPlanner {
 public:
  static constexpr double kLeastEfficiency = 0.7;

  /// `blocks` is borrowed. `state_bytes` is the largest size of the saved state of a block.
  ShardPlanner(std::span<const BlockSize> blocks, const StudyCost& cost, std::size_t threads,
               const MemoryShares& shares = {}, std::uint64_t state_bytes = 0);

  [[nodiscard]] std::vector<ShardPlan> shards(std::size_t nodes) const {
    std::vector<ShardPlan> plans;
    for (std::size_t i = 0; i < nodes; ++i) plans.push_back(shard(i, nodes));
    return plans;
  }
  [[nodiscard]] NodesPlan nodes(std::size_t nodes) const;
  /// Tries numbers of nodes up to the number of blocks: first every number up to 64, then steps of about
  /// 10 %, and last one node per block. Returns the largest of these numbers whose efficiency is at least
  /// `kLeastEfficiency`; 1 without blocks.
  [[nodiscard]] std::size_t suggested_nodes() const;

 private:
  [[nodiscard]] ShardPlan shard(std::size_t index, std::size_t count) const;

  std::span<const BlockSize> blocks_;
  StudyCost cost_;
  std::size_t threads_;
  MemoryShares shares_;
  std::uint64_t state_bytes_;
  std::vector<double> tokens_until_;  // tokens of the corpus up to the end of each block
  std::vector<double> read_until_;    // seconds of reading the corpus up to the end of each block
  double alone_ = 0;                  // seconds with one shard
};

/// The columns of the tables of a plan.
inline constexpr auto kPlanDefinitions = std::to_array<Definition>({
    {"shard", "", "", "", "I/N, as for --shard"},
    {"blocks", "", "from 0", "", "number of blocks of the shard, with those of the probe"},
    {"sentences", "", "from 0", "", "number of sentences of the corpus in the shard"},
    {"shards.tokens", "", "from 0", "", "number of tokens of the corpus in the shard"},
    {"shards.pairs", "", "from 0", "", "sum of tokens^2 over the sequences of the corpus in the shard"},
    {"shards.seconds", "s", "from 0", "", "expected wall time of the shard"},
    {"choices.seconds", "s", "from 0", "", "expected wall time of the slowest shard"},
    {"cpu_seconds", "s", "from 0", "", "expected processor time of all threads"},
    {"nodes", "", "from 1", "", "number of nodes, which compute one shard each"},
    {"imbalance", "", "from 0", "0", "time of the slowest shard / mean time of the shards - 1"},
    {"efficiency", "", "from 0", "1", "time on one node / (nodes * seconds)"},
    {"blocks_per_worker", "", "from 0", "", "number of blocks / number of threads of all nodes"},
    {"block", "", "from 0", "", "number of the block"},
    {"of", "", "", "", "corpus or probe"},
    {"trials.tokens", "", "from 0", "",
     "number of tokens of the trial: all sequences of the block, or the first ones"},
    {"trials.pairs", "", "from 0", "", "sum of tokens^2 over the sequences of the trial"},
    {"trials.seconds", "s", "from 0", "",
     "measured processor time of a thread for these tokens of the block"},
    {"law", "s", "from 0", "", "the time that the cost law predicts"},
    {"deviation", "", "from -1", "0", "law / seconds - 1"},
});

struct PlanRequest {
  std::size_t nodes = 1;
  double seconds = 10;  // approximate total time of the trials
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();  // when the command started
};

/// Reads the corpus, measures the time of some blocks, and divides the study among nodes, each of which has
/// as many threads as the pool. The trials use at most one thread per core that this process may use. Times
/// and ratios in the results are rounded to four significant digits. Throws Error(limit) if a block needs
/// more memory than StudyInput::memory.
[[nodiscard]] Results plan_study(const StudyInput& input, const PlanRequest& request, Pool& pool,
                                 Progress& progress);

}  // namespace attnctl::study
