#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace attnctl {

/// Maximum spanning tree (Prim 1957) of a complete graph with symmetric weights [n, n]. An instance reuses
/// its memory for further trees.
class MaximumSpanningTree {
 public:
  /// Returns the parent of each node [n]: the tree node to which it was joined. The entry of node 0, the
  /// root, is unused. The result is valid until the next call. On ties, the lower node is joined first.
  [[nodiscard]] std::span<const std::size_t> find(std::span<const double> weights, std::size_t n);

 private:
  std::vector<std::size_t> parent_;
  std::vector<double> reach_;      // [n], weight of the best edge to the tree
  std::vector<std::size_t> left_;  // nodes outside the tree, ascending
};

}  // namespace attnctl
