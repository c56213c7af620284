#include "study/measures/spanning_tree.hpp"

#include <limits>
#include <numeric>

namespace attnctl {

std::vector<std::size_t> maximum_spanning_tree(std::span<const double> weights, std::size_t n) {
  std::vector<std::size_t> parent(n, 0);
  std::vector<double> reach(n, -std::numeric_limits<double>::infinity());  // of the best edge to the tree
  std::vector<std::size_t> left(n);                                        // nodes, ascending
  std::iota(left.begin(), left.end(), std::size_t{0});
  for (std::size_t next = 0, count = n; count > 1;) {
    const std::size_t gone = next;
    const std::size_t joined = left[gone];
    --count;
    next = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t node = left[i] = left[i + (i >= gone ? 1 : 0)];
      const double weight = weights[joined * n + node];
      const bool better = weight > reach[node];
      const double best = better ? weight : reach[node];
      parent[node] = better ? joined : parent[node];
      reach[node] = best;
      next = best > most ? i : next;
      most = best > most ? best : most;
    }
  }
  return parent;
}

}  // namespace attnctl
