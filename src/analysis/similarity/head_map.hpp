#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "model/model.hpp"

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

/// Items as points in a plane.
struct PlanarMap {
  OwnedMatrix<double> points;  // [n, 2], centred
  /// sqrt(sum (given - drawn)^2 / sum given^2) over the distances of all pairs (stress-1 of Kruskal 1964,
  /// normalised by the given distances). 0 means that the map is exact. nullopt if all distances are 0.
  std::optional<double> stress;
  /// Sum of the two largest eigenvalues divided by the sum of all magnitudes, in [0, 1]. nullopt if all
  /// distances are 0.
  std::optional<double> share;
};

/// Returns the classical multidimensional scaling (Torgerson 1952) of a symmetric distance matrix [n, n].
/// All distances must be finite. The coordinates are the eigenvectors of the two largest eigenvalues of -1/2
/// J D^2 J, J = I - 1/n, scaled by the square roots of the eigenvalues. A coordinate is 0 if its eigenvalue
/// is not positive. The entry of largest magnitude in each coordinate is positive.
[[nodiscard]] PlanarMap classical_mds(MatrixView<const double> distances);

/// Similar heads, shown by a cluster tree and by positions in the plane. Both use the distances 1 -
/// similarity.
struct HeadMap {
  std::vector<HeadId> heads;      // heads with a similarity, in the given order
  std::vector<HeadId> undefined;  // heads without a similarity
  Linkage linkage;                // over `heads`
  PlanarMap map;                  // over `heads`

  /// Returns the heads in the order of the tree's leaves, followed by the undefined heads.
  [[nodiscard]] std::vector<HeadId> order() const;
};

/// Returns the map of the heads.
///
/// @param similarity  [heads, heads], symmetric, at most 1; NaN in the rows and columns of undefined heads
[[nodiscard]] HeadMap map_heads(std::span<const HeadId> heads, MatrixView<const double> similarity);

}  // namespace attnctl
