#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"

namespace attnctl {

/// A set of nodes for each level of a layered graph with n nodes per level, stored as bits.
class NodeSets {
 public:
  NodeSets() = default;
  NodeSets(std::size_t levels, std::size_t n) : words_((n + 63) / 64), bits_(levels * words_) {}

  [[nodiscard]] std::size_t words() const { return words_; }
  [[nodiscard]] std::span<std::uint64_t> of(std::size_t level) { return {&bits_[level * words_], words_}; }
  [[nodiscard]] std::span<const std::uint64_t> of(std::size_t level) const {
    return {&bits_[level * words_], words_};
  }
  void clear();
  void fill(std::size_t level);

 private:
  std::size_t words_ = 0;
  std::vector<std::uint64_t> bits_;
};

/// The residual graph of one flow through layers of arcs, with Dinic's algorithm. Level 0 is below the first
/// layer. Arcs go from level l + 1 to level l. Bit sets mark the arcs with residual capacity, so a search
/// checks 64 arcs at a time.
class LayeredNetwork {
 public:
  /// @param layers  capacities [n above, n below], at least 0, lowest layer first
  explicit LayeredNetwork(std::span<const OwnedMatrix<std::int64_t>> layers);

  /// Returns the maximum flow from node `from` of the last level to node `to` of level 0, and restores the
  /// graph to its state before the call.
  [[nodiscard]] std::int64_t max_flow(std::size_t from, std::size_t to);

 private:
  struct Node {
    std::size_t level = 0, index = 0;
  };
  /// An arc of the current search path.
  struct Step {
    Node node;          // start node
    bool down = false;  // true: along the arc; false: against its flow
    std::size_t next = 0;
  };

  bool label(std::size_t from, std::size_t to);
  std::int64_t block(std::size_t from);
  bool step_on(std::vector<Step>& path, Node& at);
  std::int64_t augment(std::vector<Step>& path, Node& at);
  void change(std::size_t layer, std::size_t above, std::size_t below, std::int64_t flow);
  void restore();

  [[nodiscard]] NodeSets& sets_at(std::size_t distance);

  std::size_t n_;
  std::span<const OwnedMatrix<std::int64_t>> capacity_;
  std::vector<OwnedMatrix<std::int64_t>> room_;  // capacity - flow
  /// Arc bit sets, one NodeSets per layer. Its "level" index is a node on one side of the layer; the set
  /// holds nodes on the other side.
  std::vector<NodeSets> room_below_;  // [layer], by node above: nodes below with residual capacity
  std::vector<NodeSets> room_above_;  // [layer], by node below: nodes above with residual capacity towards it
  std::vector<NodeSets> flow_above_;  // [layer], by node below: nodes above with flow towards it
  std::vector<NodeSets> flow_below_;  // [layer], by node above: nodes below with flow from it

  std::vector<NodeSets> by_distance_;  // [distance to the sink]: nodes of the current search
  std::size_t source_distance_ = 0;
  NodeSets seen_;
  struct Touched {
    std::size_t layer, above, below;
  };
  std::vector<Touched> touched_;
};

}  // namespace attnctl
