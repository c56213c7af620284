#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"

namespace attnctl {

/// A merge of two clusters. Items are clusters 0..n-1. The result of merge i is cluster n + i.
struct Merge {
  std::size_t first = 0;  // the lower cluster number
  std::size_t second = 0;
  double distance = 0;
  std::size_t size = 0;  // number of items in the result
};

struct Linkage {
  std::vector<Merge> merges;        // [n - 1], by ascending distance: rows of SciPy's linkage matrix
  std::vector<std::size_t> leaves;  // [n] items in tree order, the first cluster of a merge first
};

/// Returns the average linkage (UPGMA, Sokal and Michener 1958) of a symmetric distance matrix [n, n]. All
/// distances must be finite. Uses nearest-neighbour chains with SciPy's order and tie rules, so merges and
/// leaves equal those of scipy.cluster.hierarchy.linkage(..., "average") and leaves_list.
[[nodiscard]] Linkage average_linkage(MatrixView<const double> distances);

}  // namespace attnctl
