#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// A merge of two clusters. Each of the n items is a separate cluster at first, numbered 0..n-1. Merge i
/// creates cluster n + i.
struct ClusterMerge {
  std::size_t first = 0;   // the lower cluster number
  std::size_t second = 0;  // the higher cluster number
  double distance = 0;
  std::size_t size = 0;  // number of items in the merged cluster
};

struct Linkage {
  std::vector<ClusterMerge> merges;  // [n - 1], by ascending distance, as in SciPy's linkage matrix
  std::vector<std::size_t> leaves;   // [n], items in tree order: of each merge, `first` before `second`
};

/// Returns the cluster tree of average linkage (UPGMA, Sokal and Michener 1958) for a symmetric matrix of
/// finite distances [n, n]. Uses the nearest-neighbour chain algorithm with SciPy's order and tie rules, so
/// the results equal those of scipy.cluster.hierarchy.linkage(..., "average") and leaves_list.
[[nodiscard]] Linkage average_linkage(MatrixView<const double> distances);

struct PlanarMap {
  OwnedMatrix<double> points;  // [n, 2], with mean 0
  /// sqrt(sum (given - drawn)^2 / sum given^2), where `given` is the distance of a pair of items and `drawn`
  /// the distance of its two points (stress-1 of Kruskal 1964, normalised by the given distances). 0: the
  /// points have exactly the given distances. nullopt if all distances are 0.
  std::optional<double> stress;
  /// The sum of the two largest eigenvalues (0 if negative) of the matrix in classical_mds, divided by the
  /// sum of the absolute values of all its eigenvalues, in [0, 1]. nullopt if all distances are 0.
  std::optional<double> share;
};

/// Returns the classical multidimensional scaling (Torgerson 1952) of a symmetric matrix D of finite
/// distances [n, n]. The coordinates are the eigenvectors of the two largest eigenvalues of -1/2 J D^2 J,
/// scaled by the square roots of these eigenvalues; 0 if an eigenvalue is not positive. D^2 has the squared
/// entries of D, and J is I minus the matrix whose entries are 1/n. The entry of largest magnitude of each
/// coordinate is positive.
[[nodiscard]] PlanarMap classical_mds(MatrixView<const double> distances);

/// A cluster tree of heads and their positions in a plane. Both use the distance 1 - similarity.
struct HeadMap {
  std::vector<model::HeadId> heads;  // heads whose similarities to each other are finite, in the given order
  std::vector<model::HeadId> undefined;  // the other heads
  Linkage linkage;                       // over `heads`
  PlanarMap map;                         // over `heads`

  /// Returns the heads in the order of the tree's leaves, followed by the undefined heads in the given order.
  [[nodiscard]] std::vector<model::HeadId> order() const {
    std::vector<model::HeadId> all;
    for (const std::size_t leaf : linkage.leaves) all.push_back(heads[leaf]);
    all.insert(all.end(), undefined.begin(), undefined.end());
    return all;
  }
};

[[nodiscard]] HeadMap map_heads(std::span<const model::HeadId> heads, MatrixView<const double> similarity);

}  // namespace attnctl::analysis
