#include "analysis/similarity/clustering.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace attnctl {
namespace {

/// Merges clusters in the order in which nearest-neighbour chains find them. A cluster is identified by one
/// of its items.
class ChainMerger {
 public:
  explicit ChainMerger(MatrixView<const double> distances)
      : distances_(distances.rows, distances.rows), sizes_(distances.rows, 1) {
    for (std::size_t i = 0; i < distances.rows; ++i) {
      std::ranges::copy(distances.row(i), distances_.view().row(i).begin());
    }
  }

  std::vector<Merge> merges() {
    std::vector<Merge> all;
    for (std::size_t k = 0; k + 1 < sizes_.size(); ++k) all.push_back(next());
    return all;
  }

 private:
  /// Follows nearest neighbours until two clusters are nearest to each other, then merges them.
  Merge next() {
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

  /// Returns the nearest cluster and its distance. The previous cluster of the chain wins ties, which
  /// prevents cycles. Other ties go to the lowest index.
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

  /// Merges cluster `gone` into `into`. The index `into` now identifies the merged cluster.
  Merge join(std::size_t gone, std::size_t into, double distance) {
    const auto gone_size = static_cast<double>(sizes_[gone]);
    const auto into_size = static_cast<double>(sizes_[into]);
    const Merge merge{gone, into, distance, sizes_[gone] + sizes_[into]};
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
  std::vector<std::size_t> sizes_;  // 0: merged into another cluster
  std::vector<std::size_t> chain_;
};

/// Numbers the clusters and counts their items. The merges must be in their final order.
void number_clusters(std::vector<Merge>& merges) {
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

std::vector<std::size_t> leaves_of(const std::vector<Merge>& merges) {
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

}  // namespace

Linkage average_linkage(MatrixView<const double> distances) {
  if (distances.rows != distances.cols) throw std::logic_error("distances are a square matrix");
  Linkage linkage;
  if (distances.rows == 0) return linkage;
  linkage.merges = ChainMerger(distances).merges();
  std::ranges::stable_sort(linkage.merges, {}, &Merge::distance);
  number_clusters(linkage.merges);
  linkage.leaves = leaves_of(linkage.merges);
  return linkage;
}

}  // namespace attnctl
