#include "study/shard_plan.hpp"

#include <algorithm>

namespace attnctl {
namespace {

/// Returns the time in seconds at which the reading of each block ends, [blocks]. The time `read` is divided
/// in proportion to tokens.
std::vector<double> reading(std::span<const BlockSize> blocks, double read) {
  std::vector<double> until;
  double tokens = 0;
  for (const BlockSize& block : blocks) {
    if (!block.probe) tokens += static_cast<double>(block.tokens);
    until.push_back(tokens);
  }
  for (double& each : until) each = tokens > 0 ? each * read / tokens : 0;
  return until;
}

/// The time at which each worker is free. The first free worker takes the next block; one worker reads at a
/// time.
class Workers {
 public:
  explicit Workers(std::size_t count) : free_at_(count, 0.0) {}

  void take(double reading, double computing) {
    const auto first = std::ranges::min_element(free_at_);
    read_until_ = std::max(*first, read_until_) + reading;
    *first = read_until_ + computing;
  }
  [[nodiscard]] double done() const { return std::ranges::max(free_at_); }

 private:
  std::vector<double> free_at_;
  double read_until_ = 0;
};

}  // namespace

ShardPlanner::ShardPlanner(std::span<const BlockSize> blocks, const StudyCost& cost, std::size_t threads)
    : blocks_(blocks), cost_(cost), threads_(threads), read_until_(reading(blocks, cost.read)) {
  alone_ = shard(0, 1).seconds;
}

ShardPlan ShardPlanner::shard(std::size_t index, std::size_t count) const {
  ShardPlan plan;
  Workers workers(threads_);
  double read = 0;
  for (std::size_t i = index; i < blocks_.size(); i += count) {
    const BlockSize& block = blocks_[i];
    const double computing = cost_.law.seconds(block);
    workers.take(read_until_[i] - read, computing);
    read = read_until_[i];
    ++plan.blocks;
    plan.cpu_seconds += computing;
    if (block.probe) continue;
    plan.sentences += block.sentences;
    plan.tokens += block.tokens;
    plan.pairs += block.pairs;
  }
  workers.take((read_until_.empty() ? 0 : read_until_.back()) - read, 0);
  plan.seconds = cost_.start + workers.done();
  plan.cpu_seconds += cost_.start + cost_.read;
  return plan;
}

std::vector<ShardPlan> ShardPlanner::shards(std::size_t nodes) const {
  std::vector<ShardPlan> plans;
  for (std::size_t i = 0; i < nodes; ++i) plans.push_back(shard(i, nodes));
  return plans;
}

NodesPlan ShardPlanner::nodes(std::size_t nodes) const {
  NodesPlan plan{.nodes = nodes};
  const std::vector<ShardPlan> plans = shards(nodes);
  double sum = 0;
  for (const ShardPlan& shard : plans) {
    plan.seconds = std::max(plan.seconds, shard.seconds);
    plan.cpu_seconds += shard.cpu_seconds;
    sum += shard.seconds;
  }
  // Computes max / mean - 1 as total waiting time / total time, which rounding cannot make negative.
  double waiting = 0;
  for (const ShardPlan& shard : plans) waiting += plan.seconds - shard.seconds;
  plan.imbalance = waiting / sum;
  const auto count = static_cast<double>(nodes);
  plan.efficiency = alone_ / (count * plan.seconds);
  return plan;
}

std::size_t ShardPlanner::suggested_nodes() const {
  constexpr std::size_t all_up_to = 64;
  constexpr std::size_t further = 10;  // increase the number of nodes by 10 %
  std::size_t best = 1;
  const auto offer = [&](std::size_t n) {
    if (nodes(n).efficiency >= least_efficiency) best = n;
  };
  for (std::size_t n = 2; n < blocks_.size(); n += n < all_up_to ? 1 : n / further) offer(n);
  if (!blocks_.empty()) offer(blocks_.size());
  return best;
}

}  // namespace attnctl
