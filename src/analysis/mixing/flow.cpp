#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "analysis/mixing/rollout.hpp"
#include "base/error.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

/// Sets of nodes as bits: each row is one set.
using NodeSets = OwnedMatrix<std::uint64_t>;

void set(std::span<std::uint64_t> bits, std::size_t index, bool value) {
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  std::uint64_t& word = bits[index / 64];
  word = value ? word | bit : word & ~bit;
}

/// Returns the lowest node that is in both sets, or nullopt if there is none.
std::optional<std::size_t> first_of_both(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  for (std::size_t w = 0; w < a.size(); ++w) {
    const std::uint64_t both = a[w] & b[w];
    if (both != 0) return w * 64 + static_cast<std::size_t>(std::countr_zero(both));
  }
  return std::nullopt;
}

template <typename Visit>
void for_each(std::span<const std::uint64_t> bits, Visit&& visit) {
  for (std::size_t w = 0; w < bits.size(); ++w) {
    for (std::uint64_t rest = bits[w]; rest != 0; rest &= rest - 1)
      visit(w * 64 + static_cast<std::size_t>(std::countr_zero(rest)));
  }
}

/// Adds the nodes of `from` that are not in `seen` to both `to` and `seen`. Returns whether there were any.
bool add_unseen(std::span<const std::uint64_t> from, std::span<std::uint64_t> seen,
                std::span<std::uint64_t> to) {
  std::uint64_t any = 0;
  for (std::size_t w = 0; w < from.size(); ++w) {
    const std::uint64_t fresh = from[w] & ~seen[w];
    seen[w] |= fresh;
    to[w] |= fresh;
    any |= fresh;
  }
  return any != 0;
}

/// The residual graph of one maximum flow in a layered graph (Dinic's algorithm). Level 0 is below the first
/// layer; arcs go from level l + 1 to level l. Bit sets contain the nodes that can be reached over residual
/// capacity, so a search checks 64 arcs at a time.
class LayeredNetwork {
 public:
  /// @param layers  capacities [n above, n below], at least 0, lowest layer first
  explicit LayeredNetwork(std::span<const OwnedMatrix<std::int64_t>> layers)
      : n_(layers.front().rows()),
        words_((n_ + 63) / 64),
        capacity_(layers),
        seen_(layers.size() + 1, words_) {
    for (const OwnedMatrix<std::int64_t>& capacity : layers) {
      room_.push_back(capacity);
      NodeSets& below = room_below_.emplace_back(n_, words_);
      NodeSets& above = room_above_.emplace_back(n_, words_);
      flow_above_.emplace_back(n_, words_);
      flow_below_.emplace_back(n_, words_);
      for (std::size_t u = 0; u < n_; ++u) {
        for (std::size_t v = 0; v < n_; ++v) {
          if (capacity(u, v) == 0) continue;
          set(below.view().row(u), v, true);
          set(above.view().row(v), u, true);
        }
      }
    }
  }

  /// Returns the maximum flow from node `from` of the highest level to node `to` of level 0.
  [[nodiscard]] std::int64_t max_flow(std::size_t from, std::size_t to) {
    std::int64_t flow = 0;
    while (label(from, to)) flow += block(from);
    for (const auto& [layer, above, below] : touched_) {  // restores the network
      const std::int64_t sent = capacity_[layer](above, below) - room_[layer](above, below);
      if (sent != 0) change(layer, above, below, -sent);
    }
    touched_.clear();
    return flow;
  }

 private:
  struct LevelNode {
    std::size_t level = 0, index = 0;
  };
  struct Step {
    LevelNode node;        // start node
    bool down = false;     // true: along the arc, to the level below; false: against an arc with flow, to the
                           // level above
    std::size_t next = 0;  // index of the end node in its level
  };

  NodeSets& sets_at(std::size_t distance) {
    if (distance == by_distance_.size()) by_distance_.emplace_back(capacity_.size() + 1, words_);
    std::ranges::fill(by_distance_[distance].values(), 0);
    return by_distance_[distance];
  }

  /// Groups the nodes by their distance to the sink with a breadth-first search from the sink, until it
  /// reaches the source. Returns false if it does not reach the source.
  bool label(std::size_t from, std::size_t to) {
    const std::size_t top = capacity_.size();
    std::ranges::fill(seen_.values(), 0);
    // In the highest level, only the source is searched.
    std::ranges::fill(seen_.view().row(top), ~std::uint64_t{0});
    set(seen_.view().row(top), from, false);
    set(seen_.view().row(0), to, true);
    set(sets_at(0).view().row(0), to, true);
    for (std::size_t distance = 1;; ++distance) {
      NodeSets& next = sets_at(distance);
      bool any = false;
      const NodeSets& reached = by_distance_[distance - 1];
      for (std::size_t level = 0; level <= top; ++level) {
        for_each(reached.view().row(level), [&](std::size_t node) {
          if (level < top)
            any |= add_unseen(room_above_[level].view().row(node), seen_.view().row(level + 1),
                              next.view().row(level + 1));
          if (level > 0)
            any |= add_unseen(flow_below_[level - 1].view().row(node), seen_.view().row(level - 1),
                              next.view().row(level - 1));
        });
      }
      if ((next(top, from / 64) >> (from % 64) & 1U) != 0) {  // the source is in this set
        source_distance_ = distance;
        return true;
      }
      if (!any) return false;
    }
  }

  /// Moves `at` one step closer to the sink and appends the step to `path`. Returns false if none exists.
  bool step_on(std::vector<Step>& path, LevelNode& at) {
    const NodeSets& nearer = by_distance_[source_distance_ - path.size() - 1];
    const auto [level, index] = at;
    const auto step = [&](const NodeSets& reachable, std::size_t from, bool down, std::size_t to_level) {
      const auto next = first_of_both(reachable.view().row(from), nearer.view().row(to_level));
      if (!next) return false;
      path.push_back({at, down, *next});
      at = {to_level, *next};
      return true;
    };
    return (level > 0 && step(room_below_[level - 1], index, true, level - 1)) ||
           (level < capacity_.size() && step(flow_above_[level], index, false, level + 1));
  }

  /// Sends the largest possible flow along the path. Then removes the first arc without remaining capacity,
  /// and all later arcs, from the path, and moves `at` to the new end of the path. Returns the flow.
  std::int64_t augment(std::vector<Step>& path, LevelNode& at) {
    const auto room_of = [&](const Step& step) {
      const auto [level, index] = step.node;
      if (step.down) return room_[level - 1](index, step.next);
      return capacity_[level](step.next, index) - room_[level](step.next, index);
    };
    std::int64_t amount = std::numeric_limits<std::int64_t>::max();
    for (const Step& step : path) amount = std::min(amount, room_of(step));
    std::size_t first_full = path.size();
    for (std::size_t i = path.size(); i-- > 0;) {
      const Step& step = path[i];
      if (room_of(step) == amount) first_full = i;
      if (step.down) {
        change(step.node.level - 1, step.node.index, step.next, amount);
      } else {
        change(step.node.level, step.next, step.node.index, -amount);
      }
    }
    at = path[first_full].node;
    path.resize(first_full);
    return amount;
  }

  /// Sends a blocking flow along shortest paths and returns its value.
  std::int64_t block(std::size_t from) {
    std::int64_t total = 0;
    std::vector<Step> path;
    LevelNode at{capacity_.size(), from};
    while (true) {
      if (path.size() == source_distance_) total += augment(path, at);
      if (step_on(path, at)) continue;
      if (path.empty()) return total;
      set(by_distance_[source_distance_ - path.size()].view().row(at.level), at.index, false);  // a dead end
      at = path.back().node;
      path.pop_back();
    }
  }

  void change(std::size_t layer, std::size_t above, std::size_t below, std::int64_t flow) {
    std::int64_t& room = room_[layer](above, below);
    const std::int64_t capacity = capacity_[layer](above, below);
    if (room == capacity) touched_.push_back({layer, above, below});
    room -= flow;
    set(room_below_[layer].view().row(above), below, room > 0);
    set(room_above_[layer].view().row(below), above, room > 0);
    set(flow_above_[layer].view().row(below), above, room < capacity);
    set(flow_below_[layer].view().row(above), below, room < capacity);
  }

  std::size_t n_;
  std::size_t words_;  // number of 64-bit words in a row of NodeSets
  std::span<const OwnedMatrix<std::int64_t>> capacity_;
  std::vector<OwnedMatrix<std::int64_t>> room_;  // [layers]: capacity - flow of each arc
  // These sets have one row per node on one side of a layer; the bits are nodes on its other side.
  std::vector<NodeSets> room_below_;  // [layers], for each node above: nodes below that it can send more to
  std::vector<NodeSets> room_above_;  // [layers], for each node below: nodes above that can send it more
  std::vector<NodeSets> flow_above_;  // [layers], for each node below: nodes above with flow to it
  std::vector<NodeSets> flow_below_;  // [layers], for each node above: nodes below with flow from it

  std::vector<NodeSets> by_distance_;  // [distance to the sink]: nodes at this distance
  std::size_t source_distance_ = 0;
  NodeSets seen_;
  std::vector<std::array<std::size_t, 3>> touched_;  // layer, node above, node below
};

constexpr double kUnit = 0x1.0p-50;

}  // namespace

void require_flow_length(const input::Sequence& sequence) {
  if (sequence.queries() <= kLargestFlow) return;
  fail(Status::limit,
       "input {} has {} tokens, but flow supports at most {}; shorten the input, or leave flow out of "
       "--include",
       escaped(sequence.id), sequence.queries(), kLargestFlow);
}

OwnedMatrix<double> layered_flows(std::span<const OwnedMatrix<double>> layers,
                                  std::span<const std::size_t> from, Pool& pool) {
  const std::size_t n = layers.front().rows();
  OwnedMatrix<double> flows(from.size(), n);
  const auto is_finite = [](const OwnedMatrix<double>& layer) { return linalg::all_finite(layer.values()); };
  if (!std::ranges::all_of(layers, is_finite)) {
    std::ranges::fill(flows.values(), std::numeric_limits<double>::quiet_NaN());
    return flows;
  }
  std::vector<OwnedMatrix<std::int64_t>> capacities;  // multiples of kUnit
  for (const OwnedMatrix<double>& layer : layers) {
    std::ranges::transform(layer.values(), capacities.emplace_back(n, n).values().begin(),
                           [](double value) { return std::llround(value / kUnit); });
  }
  std::vector<std::optional<LayeredNetwork>> networks(pool.size());  // one per worker
  pool.run(from.size(), [&](std::size_t task, std::size_t worker) {
    if (!networks[worker]) networks[worker].emplace(capacities);
    for (std::size_t to = 0; to < n; ++to)
      flows(task, to) = static_cast<double>(networks[worker]->max_flow(from[task], to)) * kUnit;
  });
  return flows;
}

std::vector<OwnedMatrix<double>> AttentionFlow::finish(std::span<const std::vector<std::size_t>> from,
                                                       Pool& pool) {
  finish_layers();
  std::vector<OwnedMatrix<double>> result;
  for (std::size_t s = 0; s < layers_.size(); ++s) {
    result.push_back(layered_flows(layers_[s], from[s], pool));
    layers_[s].clear();
  }
  return result;
}

}  // namespace attnctl::analysis
