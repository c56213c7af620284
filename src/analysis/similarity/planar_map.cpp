#include "analysis/similarity/planar_map.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "linalg/decompositions.hpp"

namespace attnctl {
namespace {

/// Returns -1/2 J D^2 J.
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

PlanarMap classical_mds(MatrixView<const double> distances) {
  PlanarMap map{OwnedMatrix<double>(distances.rows, 2), {}, {}};
  const OwnedMatrix<double> centred = doubly_centred(distances);
  const SymmetricEigen eigen = symmetric_eigen(centred.view());
  double drawn = 0;
  for (std::size_t axis = 0; axis < std::min<std::size_t>(2, distances.rows); ++axis) {
    const double value = std::max(eigen.values[axis], 0.0);
    drawn += value;
    for (std::size_t i = 0; i < distances.rows; ++i) {
      map.points(i, axis) = std::sqrt(value) * eigen.vectors(axis, i);
    }
  }
  map.stress = stress_of(distances, map.points);
  const double all = std::accumulate(eigen.values.begin(), eigen.values.end(), 0.0,
                                     [](double sum, double value) { return sum + std::abs(value); });
  if (map.stress && all > 0) map.share = drawn / all;
  return map;
}

}  // namespace attnctl
