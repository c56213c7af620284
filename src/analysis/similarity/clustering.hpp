#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"

namespace attnctl {

/// Two clusters that become one. Items are clusters 0..n-1, the result of merge i is cluster n + i.
struct Merge {
  std::size_t first = 0;  // the smaller number of the two
  std::size_t second = 0;
  double distance = 0;
  std::size_t size = 0;  // items of the result
};

struct Linkage {
  std::vector<Merge> merges;        // [n - 1], by ascending distance: the rows of SciPy's linkage matrix
  std::vector<std::size_t> leaves;  // [n] items in the order of the tree, the first cluster of a merge first
};

/// Average linkage (UPGMA, Sokal and Michener 1958) of a symmetric matrix of distances [n, n], all finite.
/// By nearest-neighbour chains with SciPy's order and its ways with ties, so that merges and leaves are those
/// of scipy.cluster.hierarchy.linkage(..., "average") and leaves_list.
[[nodiscard]] Linkage average_linkage(MatrixView<const double> distances);

}  // namespace attnctl
