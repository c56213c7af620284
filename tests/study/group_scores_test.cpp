#include "study/measures/relations/group_scores.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/random.hpp"
#include "study/measures/relations/spanning_tree.hpp"

namespace attnctl::test {
namespace {

std::string saved(const GroupScores& scores) {
  StateWriter out;
  scores.save(out);
  return out.bytes();
}

std::set<std::size_t> all_groups() {
  std::set<std::size_t> groups;
  for (std::size_t group = 0; group < kGroups; ++group) groups.insert(group);
  return groups;
}

/// Returns scores with `asked` questions in every group. Each answer is right with the given probability.
GroupScores drawn(std::uint64_t asked, const std::vector<double>& shares, std::uint64_t seed) {
  GroupScores scores(shares.size());
  Random random(seed);
  for (std::size_t group = 0; group < kGroups; ++group) {
    std::vector<std::uint64_t>& counts = scores.group(group);
    counts[0] = asked;
    for (std::uint64_t i = 0; i < asked; ++i) {
      const double draw = random.uniform();
      for (std::size_t a = 0; a < shares.size(); ++a) counts[1 + a] += draw < shares[a] ? 1 : 0;
    }
  }
  return scores;
}

TEST_CASE("groups keep to the half of their block, and fill it evenly") {
  std::vector<std::size_t> sizes(kGroups);
  for (std::uint64_t block = 0; block < 400; ++block) {
    for (std::size_t sequence = 0; sequence < 80; ++sequence) {
      const std::size_t group = group_of(block, sequence);
      CHECK((group < kGroups / 2) == (block % 2 == 0));
      CHECK(group == group_of(block, sequence - sequence % 8));
      ++sizes[group];
    }
  }
  const auto [least, most] = std::ranges::minmax(sizes);
  CHECK(least > 300);  // expected: 500; standard deviation: 63
  CHECK(most < 750);
}

TEST_CASE(
    "an interval of a share is as wide as the binomial has it, and covers the share as often as it says") {
  const std::set<std::size_t> groups = all_groups();
  const Bootstrap bootstrap(3, groups);
  int covered = 0;
  double width = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto interval = bootstrap.interval(drawn(50, {0.3}, seed), 0);
    REQUIRE(interval);
    covered += interval->low <= 0.3 && 0.3 <= interval->high ? 1 : 0;
    width += (interval->high - interval->low) / 200;
  }
  CHECK(covered >= 180);  // expected: 190
  CHECK(covered <= 198);
  CHECK(width == doctest::Approx(2 * 1.96 * std::sqrt(0.3 * 0.7 / (50.0 * kGroups))).epsilon(0.05));
}

TEST_CASE("intervals: of a sure thing a point, of a difference paired, of few groups none") {
  const Bootstrap bootstrap(0, all_groups());
  const GroupScores sure = drawn(7, {1.0, 1.0, 0.5}, 1);
  CHECK(bootstrap.interval(sure, 0) == ConfidenceInterval({1.0, 1.0}));
  CHECK(bootstrap.interval(sure, 0, kOddBlocks, 1) == ConfidenceInterval({0.0, 0.0}));
  const auto gain = bootstrap.interval(sure, 0, kOddBlocks, 2);
  const auto share = bootstrap.interval(sure, 2, kOddBlocks);
  REQUIRE((gain && share));
  CHECK(gain->low == doctest::Approx(1 - share->high));
  CHECK(gain->high == doctest::Approx(1 - share->low));
  GroupScores few(1);
  for (const std::size_t group : {0U, 1U, 2U, 3U}) few.group(group)[0] = 10;
  CHECK_FALSE(bootstrap.interval(few, 0));
  few.group(40)[0] = 1;
  CHECK(bootstrap.interval(few, 0));
  CHECK_FALSE(bootstrap.interval(few, 0, kOddBlocks));
}

TEST_CASE("intervals of several answers are those of each") {
  const Bootstrap bootstrap(4, all_groups());
  const GroupScores scores = drawn(9, {0.1, 0.5, 0.8, 1.0}, 2);
  const auto some = bootstrap.intervals(scores, 1, 3);
  REQUIRE(some.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(some[i] == bootstrap.interval(scores, 1 + i));
  CHECK(some[0] != some[1]);
  CHECK_FALSE(bootstrap.intervals(GroupScores(2), 0, 2).back());
}

TEST_CASE("the best answer is that of even blocks, the first of equal ones") {
  GroupScores scores(4);
  CHECK_FALSE(scores.best(0, 4));
  scores.group(2) = {9, 1, 5, 5, 2};
  scores.group(33) = {9, 9, 0, 0, 9};
  CHECK(scores.best(0, 4) == 1);
  CHECK(scores.best(2, 2) == 2);
  CHECK(scores.accuracy(1, kEvenBlocks) == 5.0 / 9);
  CHECK(scores.accuracy(1) == 5.0 / 18);
  CHECK_FALSE(GroupScores(1).accuracy(0));
}

TEST_CASE("scores merge in any order to the same bytes, and damaged ones are refused") {
  std::vector<GroupScores> parts;
  for (std::uint64_t seed = 0; seed < 5; ++seed) parts.push_back(drawn(20, {0.2, 0.9}, seed));
  const auto joined = [&](const std::vector<std::size_t>& order) {
    GroupScores all(2);
    for (const std::size_t part : order) {
      const std::string bytes = saved(parts[part]);
      StateReader in(bytes, "part");
      GroupScores read(2);
      read.load(in);
      CHECK(in.at_end());
      all.merge(part % 2 == 0 ? read : parts[part]);
    }
    return saved(all);
  };
  CHECK(joined({0, 1, 2, 3, 4}) == joined({3, 0, 4, 2, 1}));
  const std::string bytes = saved(parts[0]);
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    GroupScores read(2);
    StateReader in(std::string_view(bytes).substr(0, size), "cut");
    CHECK_THROWS_AS(read.load(in), Error);
  }
  StateWriter outside;
  for (const std::uint64_t number : {1U, 64U, 0U, 0U, 0U}) outside.number(number);
  GroupScores read(2);
  StateReader in(outside.bytes(), "outside");
  CHECK_THROWS_WITH_AS(read.load(in), doctest::Contains("groups of sentences"), Error);
}

/// Returns the weight of the maximum spanning tree (Kruskal 1956): the heaviest edges that do not form a
/// cycle.
double kruskal(const std::vector<double>& weights, std::size_t n) {
  std::vector<std::tuple<double, std::size_t, std::size_t>> edges;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < a; ++b) edges.emplace_back(-weights[a * n + b], a, b);
  }
  std::ranges::sort(edges);
  std::vector<std::size_t> part(n);
  std::iota(part.begin(), part.end(), 0U);
  double sum = 0;
  for (const auto& [weight, a, b] : edges) {
    if (part[a] == part[b]) continue;
    sum -= weight;
    std::ranges::replace(part, std::size_t{part[a]}, std::size_t{part[b]});
  }
  return sum;
}

TEST_CASE("spanning trees weigh what Kruskal's do, and join everything") {
  Random random(5);
  MaximumSpanningTree tree;
  for (std::size_t n = 1; n <= 20; ++n) {
    std::vector<double> weights(n * n);
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < a; ++b) weights[a * n + b] = weights[b * n + a] = random.uniform();
    }
    const std::span<const std::size_t> parent = tree.find(weights, n);
    REQUIRE(parent.size() == n);
    double sum = 0;
    for (std::size_t node = 1; node < n; ++node) {
      sum += weights[node * n + parent[node]];
      std::size_t at = node;
      for (std::size_t steps = 0; at != 0 && steps < n; ++steps) at = parent[at];
      CHECK(at == 0);
    }
    CHECK(sum == doctest::Approx(kruskal(weights, n)));
  }
}

}  // namespace
}  // namespace attnctl::test
