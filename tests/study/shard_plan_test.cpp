#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "study/plan.hpp"

namespace attnctl::test {

using namespace study;

namespace {

BlockSize block(std::uint64_t number, std::uint64_t tokens, std::uint64_t pairs) {
  return {.number = number, .sentences = 1, .tokens = tokens, .pairs = pairs};
}

TEST_CASE("fit_cost_law finds the terms from which the trials were computed") {
  struct Case {
    std::string name;
    double token = 0, pair = 0;
    std::vector<BlockSize> sizes;
    double found_token = 0, found_pair = 0;
  };
  const std::vector<Case> cases = {
      {"both", 2e-3, 5e-6, {block(0, 100, 1000), block(1, 100, 9000), block(2, 40, 900)}, 2e-3, 5e-6},
      {"no pairs", 2e-3, 0, {block(0, 100, 1000), block(1, 100, 9000)}, 2e-3, 0},
      {"no tokens", 0, 5e-6, {block(0, 100, 1000), block(1, 100, 9000)}, 0, 5e-6},
      {"one length cannot tell them apart", 1e-3, 1e-4, {block(0, 100, 1000), block(1, 50, 500)}, 2e-3, 0},
      {"one trial", 1e-3, 1e-4, {block(0, 100, 1000)}, 2e-3, 0},
      {"pairs that save time are left out", 2e-3, -5e-6, {block(0, 100, 1000), block(1, 100, 2000)}, 0, 0},
  };
  for (const Case& each : cases) {
    CAPTURE(each.name);
    std::vector<BlockTrial> trials;
    for (const BlockSize& size : each.sizes)
      trials.push_back({size, each.token * static_cast<double>(size.tokens) +
                                  each.pair * static_cast<double>(size.pairs)});
    const CostLaw law = fit_cost_law(trials);
    if (each.pair < 0) {
      CHECK(law.pair == 0);
      CHECK(law.token > 0);
      CHECK(law.deviation > 0);
      continue;
    }
    CHECK(law.token == doctest::Approx(each.found_token).epsilon(1e-9));
    CHECK(law.pair == doctest::Approx(each.found_pair).epsilon(1e-9));
    CHECK(law.deviation < 1e-9);
    CHECK(law.probe_token == law.token);
  }
}

TEST_CASE("probe blocks have their own rate, and a cost law needs a corpus block") {
  BlockSize probe = block(7, 50, 2500);
  probe.probe = true;
  const std::vector<BlockTrial> trials = {{block(0, 100, 1000), 1.0}, {probe, 5.0}};
  const CostLaw law = fit_cost_law(trials);
  CHECK(law.seconds(probe) == doctest::Approx(5.0));
  CHECK(law.seconds(block(0, 100, 1000)) == doctest::Approx(1.0));
  CHECK_THROWS_AS((void)fit_cost_law(std::vector<BlockTrial>{{probe, 5.0}}), std::logic_error);
}

/// `count` blocks of 10 tokens, each of which takes one second.
struct Even {
  std::vector<BlockSize> blocks;
  StudyCost cost{.law = {.token = 0.1}};

  explicit Even(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) blocks.push_back(block(i, 10, 100));
  }
};

TEST_CASE("a shard takes every Nth block, and its free workers take them in turn") {
  const Even even(7);
  const ShardPlanner planner(even.blocks, even.cost, 2);
  const std::vector<ShardPlan> shards = planner.shards(3);
  REQUIRE(shards.size() == 3);
  CHECK(shards[0].blocks == 3);
  CHECK(shards[1].blocks == 2);
  CHECK(shards[0].tokens == 30);
  CHECK(shards[0].pairs == 300);
  CHECK(shards[0].seconds == doctest::Approx(2));  // three blocks on two workers
  CHECK(shards[1].seconds == doctest::Approx(1));
  CHECK(shards[0].cpu_seconds == doctest::Approx(3));
  const NodesPlan nodes = planner.nodes(3);
  CHECK(nodes.seconds == doctest::Approx(2));
  CHECK(nodes.cpu_seconds == doctest::Approx(7));
  CHECK(nodes.imbalance == doctest::Approx(0.5));       // slowest: 2; mean: 4/3
  CHECK(nodes.efficiency == doctest::Approx(4.0 / 6));  // with one node: 4 seconds
  CHECK(planner.nodes(1).efficiency == doctest::Approx(1));
}

TEST_CASE("every shard starts and reads the whole corpus with one worker at a time") {
  Even even(4);
  even.cost.start = 5;
  even.cost.read = 2;  // 0.5 seconds per block
  const ShardPlanner one(even.blocks, even.cost, 1);
  CHECK(one.shards(1)[0].seconds == doctest::Approx(5 + 2 + 4));
  CHECK(one.shards(2)[1].seconds == doctest::Approx(5 + 2 + 2));
  CHECK(one.shards(2)[1].cpu_seconds == doctest::Approx(5 + 2 + 2));
  const ShardPlanner many(even.blocks, even.cost, 8);
  CHECK(many.shards(1)[0].seconds == doctest::Approx(5 + 2 + 1));  // the last block is read at second 2
}

TEST_CASE("the cost of reading the weights for each group is separated from that of tokens and pairs") {
  std::vector<BlockTrial> trials;
  for (const BlockSize& size : {block(0, 100, 1000), block(1, 100, 9000), block(2, 40, 900)})
    trials.push_back(
        {size, 3 + 2e-3 * static_cast<double>(size.tokens) + 5e-6 * static_cast<double>(size.pairs)});
  BlockSize probe = block(9, 50, 2500);
  probe.probe = true;
  trials.push_back({probe, 3.5});
  const CostLaw law = fit_cost_law(trials, 3);
  CHECK(law.group == doctest::Approx(3));
  CHECK(law.token == doctest::Approx(2e-3));
  CHECK(law.pair == doctest::Approx(5e-6));
  CHECK(law.probe_token == doctest::Approx(0.01));
  CHECK(law.deviation < 1e-9);
  const CostLaw short_trial = fit_cost_law(std::vector<BlockTrial>{{block(0, 9, 81), 2.0}}, 2.5);
  CHECK(short_trial.token == 0);  // the whole time is that of reading
  CHECK(short_trial.group == 2.5);
}

TEST_CASE(
    "a worker that reads the weights layer by layer takes one block, then groups that fit into its memory") {
  Even even(7);
  even.cost.law.group = 2;
  BlockMemory memory;
  memory.rows = 10;
  memory.row = 4;
  memory.fixed = 100;
  for (BlockSize& each : even.blocks) each.memory = memory;
  // A group of three blocks: 100 + 30 * 4 + 3 * 4 * 5 = 280 bytes.
  MemoryShares shares;
  shares.of_worker = 280;
  const auto seconds = [&](std::uint64_t of_worker, std::uint64_t state_bytes) {
    shares.of_worker = of_worker;
    return ShardPlanner(even.blocks, even.cost, 1, shares, state_bytes).shards(1)[0];
  };
  const ShardPlan three = seconds(280, 5);
  CHECK(three.blocks == 7);
  CHECK(three.seconds == doctest::Approx(7 + 3 * 2));  // groups of 1, 3 and 3 blocks
  CHECK(three.worker_bytes == 280);
  CHECK(seconds(279, 5).seconds == doctest::Approx(7 + 4 * 2));  // 1, 2, 2 and 2 blocks
  CHECK(seconds(140, 5).seconds == doctest::Approx(7 + 7 * 2));
  CHECK(seconds(100000, 5).seconds == doctest::Approx(7 + 2 * 2));  // at least 64 rows together
}

TEST_CASE("shards with equal times have an imbalance of exactly 0") {
  for (std::uint64_t nodes = 1; nodes <= 64; ++nodes) {
    CAPTURE(nodes);
    Even even(nodes);
    even.cost.start = 0.0372;  // sums of equal numbers are rounded: 3 * 0.1 / 3 > 0.1
    CHECK(ShardPlanner(even.blocks, even.cost, 1).nodes(nodes).imbalance == 0);
  }
}

TEST_CASE("suggested_nodes stops where efficiency drops") {
  const Even even(100);
  CHECK(ShardPlanner(even.blocks, even.cost, 1).suggested_nodes() == 100);
  CHECK(ShardPlanner(even.blocks, even.cost, 100).suggested_nodes() == 1);
  Even slow(100);
  slow.cost.read = 1000;  // far longer than the computation
  CHECK(ShardPlanner(slow.blocks, slow.cost, 1).suggested_nodes() == 1);
}

}  // namespace
}  // namespace attnctl::test
