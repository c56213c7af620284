#include "study/measures/spanning_tree.hpp"

#include <cstdint>
#include <limits>

namespace attnctl {

std::vector<std::size_t> maximum_spanning_tree(std::span<const double> weights, std::size_t n) {
  std::vector<std::size_t> parent(n, 0);
  std::vector<double> reach(n, -std::numeric_limits<double>::infinity());  // of the best edge to the tree
  std::vector<std::uint8_t> joined(n, 0);
  std::size_t at = 0;
  for (std::size_t step = 1; step < n; ++step) {
    joined[at] = 1;
    std::size_t next = n;
    for (std::size_t node = 0; node < n; ++node) {
      if (joined[node] != 0) continue;
      const double weight = weights[at * n + node];
      if (weight > reach[node]) {
        reach[node] = weight;
        parent[node] = at;
      }
      if (next == n || reach[node] > reach[next]) next = node;
    }
    at = next;
  }
  return parent;
}

}  // namespace attnctl
