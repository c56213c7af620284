#include "analysis/similarity/head_map.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "linalg/decompositions.hpp"

namespace attnctl::analysis {
namespace {

/// The nearest-neighbour chain algorithm. A cluster is identified by the index of one of its items.
class ChainMerger {
 public:
  explicit ChainMerger(MatrixView<const double> distances)
      : distances_(distances.rows, distances.rows), sizes_(distances.rows, 1) {
    for (std::size_t i = 0; i < distances.rows; ++i)
      std::ranges::copy(distances.row(i), distances_.view().row(i).begin());
  }

  /// Follows nearest neighbours until two clusters are nearest to each other, then merges them.
  ClusterMerge next() {
    if (chain_.empty()) {
      const auto first = std::ranges::find_if(sizes_, [](std::size_t size) { return size > 0; });
      chain_.push_back(static_cast<std::size_t>(first - sizes_.begin()));
    }
    while (true) {
      const std::size_t from = chain_.back();
      const bool has_previous = chain_.size() > 1;
      const std::size_t previous = has_previous ? chain_[chain_.size() - 2] : from;
      const auto [nearest, distance] = nearest_of(from, previous);
      if (has_previous && nearest == previous) {
        chain_.resize(chain_.size() - 2);
        return join(std::min(from, nearest), std::max(from, nearest), distance);
      }
      chain_.push_back(nearest);
    }
  }

 private:
  /// Returns the cluster nearest to `from`, and its distance. If distances are equal, `previous` (the
  /// previous cluster of the chain) is preferred, which prevents cycles, then the lowest index.
  [[nodiscard]] std::pair<std::size_t, double> nearest_of(std::size_t from, std::size_t previous) const {
    std::size_t nearest = previous;
    double least = previous == from ? std::numeric_limits<double>::infinity() : distances_(from, previous);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] == 0 || i == from || !(distances_(from, i) < least)) continue;
      least = distances_(from, i);
      nearest = i;
    }
    return {nearest, least};
  }

  /// Merges cluster `gone` into cluster `into`. The merged cluster has the index `into`.
  ClusterMerge join(std::size_t gone, std::size_t into, double distance) {
    const auto gone_size = static_cast<double>(sizes_[gone]);
    const auto into_size = static_cast<double>(sizes_[into]);
    const ClusterMerge merge{gone, into, distance, sizes_[gone] + sizes_[into]};
    sizes_[gone] = 0;
    sizes_[into] = merge.size;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] == 0 || i == into) continue;
      const double mean =
          (gone_size * distances_(i, gone) + into_size * distances_(i, into)) / (gone_size + into_size);
      distances_(i, into) = mean;
      distances_(into, i) = mean;
    }
    return merge;
  }

  OwnedMatrix<double> distances_;
  std::vector<std::size_t> sizes_;  // items per cluster; 0 if merged into another cluster
  std::vector<std::size_t> chain_;
};

/// Sets the cluster numbers and sizes of the merges. The merges must be in their final order.
void number_clusters(std::vector<ClusterMerge>& merges) {
  const std::size_t items = merges.size() + 1;
  std::vector<std::size_t> parent(items + merges.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  std::vector<std::size_t> sizes(parent.size(), 1);
  const auto root = [&](std::size_t cluster) {
    while (parent[cluster] != cluster) cluster = parent[cluster] = parent[parent[cluster]];
    return cluster;
  };
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto [first, second] = std::minmax({root(merges[i].first), root(merges[i].second)});
    merges[i].first = first;
    merges[i].second = second;
    merges[i].size = sizes[items + i] = sizes[first] + sizes[second];
    parent[first] = parent[second] = items + i;
  }
}

std::vector<std::size_t> leaves_of(const std::vector<ClusterMerge>& merges) {
  const std::size_t items = merges.size() + 1;
  std::vector<std::size_t> leaves;
  std::vector<std::size_t> open{items + merges.size() - 1};
  while (!open.empty()) {
    const std::size_t cluster = open.back();
    open.pop_back();
    if (cluster < items) {
      leaves.push_back(cluster);
    } else {
      open.push_back(merges[cluster - items].second);
      open.push_back(merges[cluster - items].first);
    }
  }
  return leaves;
}

/// Returns -1/2 J D^2 J (see classical_mds).
OwnedMatrix<double> doubly_centred(MatrixView<const double> distances) {
  const std::size_t n = distances.rows;
  OwnedMatrix<double> b(n, n);
  std::vector<double> means(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) b(i, j) = -0.5 * distances(i, j) * distances(i, j);
    const auto row = b.view().row(i);
    means[i] = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(n);
  }
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) b(i, j) += mean - means[i] - means[j];
  }
  return b;
}

std::optional<double> stress_of(MatrixView<const double> distances, const OwnedMatrix<double>& points) {
  double missed = 0;
  double given = 0;
  for (std::size_t i = 0; i < distances.rows; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double drawn = std::hypot(points(i, 0) - points(j, 0), points(i, 1) - points(j, 1));
      missed += (distances(i, j) - drawn) * (distances(i, j) - drawn);
      given += distances(i, j) * distances(i, j);
    }
  }
  if (given == 0) return std::nullopt;
  return std::sqrt(missed / given);
}

}  // namespace

Linkage average_linkage(MatrixView<const double> distances) {
  if (distances.rows != distances.cols) throw std::logic_error("the matrix of distances must be square");
  Linkage linkage;
  if (distances.rows == 0) return linkage;
  ChainMerger merger(distances);
  while (linkage.merges.size() + 1 < distances.rows) linkage.merges.push_back(merger.next());
  std::ranges::stable_sort(linkage.merges, {}, &ClusterMerge::distance);
  number_clusters(linkage.merges);
  linkage.leaves = leaves_of(linkage.merges);
  return linkage;
}

PlanarMap classical_mds(MatrixView<const double> distances) {
  PlanarMap map{OwnedMatrix<double>(distances.rows, 2), {}, {}};
  const OwnedMatrix<double> centred = doubly_centred(distances);
  const linalg::SymmetricEigen eigen = linalg::symmetric_eigen(centred.view());
  double drawn = 0;
  for (std::size_t axis = 0; axis < std::min<std::size_t>(2, distances.rows); ++axis) {
    const double value = std::max(eigen.values[axis], 0.0);
    drawn += value;
    for (std::size_t i = 0; i < distances.rows; ++i)
      map.points(i, axis) = std::sqrt(value) * eigen.vectors(axis, i);
  }
  map.stress = stress_of(distances, map.points);
  const double all = std::accumulate(eigen.values.begin(), eigen.values.end(), 0.0,
                                     [](double sum, double value) { return sum + std::abs(value); });
  if (map.stress && all > 0) map.share = drawn / all;
  return map;
}

HeadMap map_heads(std::span<const model::HeadId> heads, MatrixView<const double> similarity) {
  HeadMap result;
  std::vector<std::size_t> defined;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    // After an overflow, a pair can be undefined although both heads have defined pairs with other heads.
    const auto comparable = [&](std::size_t other) { return std::isfinite(similarity(i, other)); };
    if (comparable(i) && std::ranges::all_of(defined, comparable)) {
      defined.push_back(i);
      result.heads.push_back(heads[i]);
    } else {
      result.undefined.push_back(heads[i]);
    }
  }
  OwnedMatrix<double> distances(defined.size(), defined.size());
  for (std::size_t a = 0; a < defined.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b)
      distances(a, b) = distances(b, a) = 1 - similarity(defined[a], defined[b]);
  }
  result.linkage = average_linkage(distances.view());
  result.map = classical_mds(distances.view());
  return result;
}

}  // namespace attnctl::analysis
