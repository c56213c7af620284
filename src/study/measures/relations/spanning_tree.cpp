#include "study/measures/relations/spanning_tree.hpp"

#include <limits>
#include <numeric>

namespace attnctl {

std::span<const std::size_t> MaximumSpanningTree::find(std::span<const double> weights, std::size_t n) {
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  parent_.assign(n, 0);
  reach_.assign(n, lowest);
  left_.resize(n);
  std::iota(left_.begin(), left_.end(), std::size_t{0});
  std::size_t* const left = left_.data();
  double* const reach = reach_.data();
  for (std::size_t next = 0, count = n; count > 1;) {
    const std::size_t gone = next;
    const std::size_t joined = left[gone];
    const double* const edges = weights.data() + joined * n;
    --count;
    next = 0;
    double most = lowest;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t node = left[i] = left[i + (i >= gone ? 1 : 0)];
      const bool better = edges[node] > reach[node];
      const double best = better ? edges[node] : reach[node];
      parent_[node] = better ? joined : parent_[node];
      reach[node] = best;
      next = best > most ? i : next;
      most = best > most ? best : most;
    }
  }
  return parent_;
}

}  // namespace attnctl
