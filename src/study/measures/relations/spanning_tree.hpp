#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace attnctl {

/// The maximum spanning tree (Prim 1957) of a complete graph with symmetric weights [n, n]. One instance
/// finds many, in the room of the first.
class MaximumSpanningTree {
 public:
  /// The other end of the edge by which each node but the first was joined [n], valid until the next. Of
  /// equal weights the lower node comes first.
  [[nodiscard]] std::span<const std::size_t> find(std::span<const double> weights, std::size_t n);

 private:
  std::vector<std::size_t> parent_;
  std::vector<double> reach_;      // [n], of the best edge to the tree
  std::vector<std::size_t> left_;  // nodes that are not in it, ascending
};

}  // namespace attnctl
