#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace attnctl {

/// The maximum spanning tree (Prim 1957) of a complete graph with symmetric weights [n, n]: the other end of
/// the edge by which each node but the first was joined, [n]. Of equal weights the lower node comes first.
[[nodiscard]] std::vector<std::size_t> maximum_spanning_tree(std::span<const double> weights, std::size_t n);

}  // namespace attnctl
