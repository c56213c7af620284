#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"

namespace attnctl {

/// Sets of the n nodes of every level of a layered graph, as bits.
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

/// The residual graph of one flow through layers of arcs, and Dinic's algorithm on it. Level 0 lies below the
/// first layer, arcs lead from level l + 1 to level l. Which arcs have room is kept as bits beside the
/// capacities, so that a search looks at 64 arcs at once.
class LayeredNetwork {
 public:
  /// Capacities, at least 0, lowest layer first: [n above, n below].
  explicit LayeredNetwork(std::span<const OwnedMatrix<std::int64_t>> layers);

  /// The maximum flow from a node of the last level to one of level 0; leaves the graph as it was.
  [[nodiscard]] std::int64_t max_flow(std::size_t from, std::size_t to);

 private:
  struct Node {
    std::size_t level = 0, index = 0;
  };
  /// An arc of the path that is being searched, by its ends above and below.
  struct Step {
    Node node;          // where it begins
    bool down = false;  // with the arc, else against its flow
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
  /// One set for each node of a layer's upper or lower side, "level" being that node.
  std::vector<NodeSets> room_below_;  // [layer] of node above: nodes below with room
  std::vector<NodeSets> room_above_;  // [layer] of node below: nodes above with room towards it
  std::vector<NodeSets> flow_above_;  // [layer] of node below: nodes above with flow towards it
  std::vector<NodeSets> flow_below_;  // [layer] of node above: nodes below with flow from it

  std::vector<NodeSets> by_distance_;  // from the sink, those of the current search
  std::size_t source_distance_ = 0;
  NodeSets seen_;
  struct Touched {
    std::size_t layer, above, below;
  };
  std::vector<Touched> touched_;
};

}  // namespace attnctl
