#include "study/shard_plan.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace attnctl {
namespace {

/// Sums over all trials for the normal equations of the fit. `tokens` and `pairs` are divided by the trial's
/// seconds.
struct Normal {
  double tokens = 0, pairs = 0;  // right-hand side
  double tokens_tokens = 0, tokens_pairs = 0, pairs_pairs = 0;
};

Normal normal_of(std::span<const BlockTrial> trials) {
  Normal sums;
  for (const BlockTrial& trial : trials) {
    if (trial.size.probe) continue;
    const double tokens = static_cast<double>(trial.size.tokens) / trial.seconds;
    const double pairs = static_cast<double>(trial.size.pairs) / trial.seconds;
    sums.tokens += tokens;
    sums.pairs += pairs;
    sums.tokens_tokens += tokens * tokens;
    sums.tokens_pairs += tokens * pairs;
    sums.pairs_pairs += pairs * pairs;
  }
  return sums;
}

void set_terms(const Normal& sums, CostLaw& law) {
  const double scale = sums.tokens_tokens * sums.pairs_pairs;
  const double determinant = scale - sums.tokens_pairs * sums.tokens_pairs;
  constexpr double smallest = 1e-9;  // below this, all trials have sequences of the same length
  if (determinant > smallest * scale) {
    law.token = (sums.tokens * sums.pairs_pairs - sums.pairs * sums.tokens_pairs) / determinant;
    law.pair = (sums.pairs * sums.tokens_tokens - sums.tokens * sums.tokens_pairs) / determinant;
    if (law.token >= 0 && law.pair >= 0) return;
  }
  const bool pairs_alone = law.token < 0;
  law.token = pairs_alone ? 0 : sums.tokens / sums.tokens_tokens;
  law.pair = pairs_alone ? sums.pairs / sums.pairs_pairs : 0;
}

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

double CostLaw::seconds(const BlockSize& size) const {
  const auto tokens = static_cast<double>(size.tokens);
  return size.probe ? probe_token * tokens : token * tokens + pair * static_cast<double>(size.pairs);
}

CostLaw fit_cost_law(std::span<const BlockTrial> trials) {
  if (std::ranges::all_of(trials, [](const BlockTrial& trial) { return trial.size.probe; }))
    throw std::logic_error("the cost law needs a trial of the corpus");
  CostLaw law;
  set_terms(normal_of(trials), law);
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
