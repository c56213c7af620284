#include "study/shard_plan.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace attnctl {

double CostLaw::seconds(const BlockSize& size) const {
  const auto tokens = static_cast<double>(size.tokens);
  return size.probe ? probe_token * tokens : token * tokens + pair * static_cast<double>(size.pairs);
}

CostLaw fit_cost_law(std::span<const BlockTrial> trials) {
  if (std::ranges::all_of(trials, [](const BlockTrial& trial) { return trial.size.probe; }))
    throw std::logic_error("the cost law needs a trial of the corpus");
  // The normal equations, with `tokens` and `pairs` divided by the seconds of the trial.
  double tokens = 0, pairs = 0;  // right-hand side
  double tokens_tokens = 0, tokens_pairs = 0, pairs_pairs = 0;
  for (const BlockTrial& trial : trials) {
    if (trial.size.probe) continue;
    const double t = static_cast<double>(trial.size.tokens) / trial.seconds;
    const double p = static_cast<double>(trial.size.pairs) / trial.seconds;
    tokens += t;
    pairs += p;
    tokens_tokens += t * t;
    tokens_pairs += t * p;
    pairs_pairs += p * p;
  }
  CostLaw law;
  const double scale = tokens_tokens * pairs_pairs;
  const double determinant = scale - tokens_pairs * tokens_pairs;
  constexpr double smallest = 1e-9;  // below this, all trials have sequences of the same length
  const bool separable = determinant > smallest * scale;
  if (separable) {
    law.token = (tokens * pairs_pairs - pairs * tokens_pairs) / determinant;
    law.pair = (pairs * tokens_tokens - tokens * tokens_pairs) / determinant;
  }
  if (law.token < 0) {
    law.token = 0;
    law.pair = pairs / pairs_pairs;
  } else if (!separable || law.pair < 0) {
    law.token = tokens / tokens_tokens;
    law.pair = 0;
  }
  law.probe_token = law.token;
  for (const BlockTrial& trial : trials) {
    if (trial.size.probe) {
      law.probe_token = trial.seconds / static_cast<double>(trial.size.tokens);
    } else {
      law.deviation = std::max(law.deviation, std::abs(law.seconds(trial.size) / trial.seconds - 1));
    }
  }
  return law;
}

ShardPlanner::ShardPlanner(std::span<const BlockSize> blocks, const StudyCost& cost, std::size_t threads)
    : blocks_(blocks), cost_(cost), threads_(threads) {
  double tokens = 0;
  for (const BlockSize& block : blocks) {
    if (!block.probe) tokens += static_cast<double>(block.tokens);
    read_until_.push_back(tokens);
  }
  for (double& each : read_until_) each = tokens > 0 ? each * cost.read / tokens : 0;
  alone_ = shard(0, 1).seconds;
}

ShardPlan ShardPlanner::shard(std::size_t index, std::size_t count) const {
  ShardPlan plan;
  std::vector<double> free_at(threads_, 0.0);  // by worker
  double read = 0;                             // part of the corpus that was read, in seconds
  double reader_free_at = 0;
  const auto take = [&](double read_until, double computing) {
    const auto first = std::ranges::min_element(free_at);
    reader_free_at = std::max(*first, reader_free_at) + (read_until - read);
    *first = reader_free_at + computing;
    read = read_until;
  };
  for (std::size_t i = index; i < blocks_.size(); i += count) {
    const BlockSize& block = blocks_[i];
    const double computing = cost_.law.seconds(block);
    take(read_until_[i], computing);
    ++plan.blocks;
    plan.cpu_seconds += computing;
    if (block.probe) continue;
    plan.sentences += block.sentences;
    plan.tokens += block.tokens;
    plan.pairs += block.pairs;
  }
  take(read_until_.empty() ? 0 : read_until_.back(), 0);
  plan.seconds = cost_.start + std::ranges::max(free_at);
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
  plan.efficiency = alone_ / (static_cast<double>(nodes) * plan.seconds);
  return plan;
}

std::size_t ShardPlanner::suggested_nodes() const {
  constexpr std::size_t all_up_to = 64;
  constexpr std::size_t step = 10;  // then increase the number of nodes by 1/10
  std::size_t best = 1;
  const auto offer = [&](std::size_t n) {
    if (nodes(n).efficiency >= kLeastEfficiency) best = n;
  };
  for (std::size_t n = 2; n < blocks_.size(); n += n < all_up_to ? 1 : n / step) offer(n);
  if (!blocks_.empty()) offer(blocks_.size());
  return best;
}

}  // namespace attnctl
