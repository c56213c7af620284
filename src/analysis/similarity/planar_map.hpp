#pragma once

#include <optional>

#include "base/matrix_view.hpp"

namespace attnctl {

/// Items as points of a plane.
struct PlanarMap {
  OwnedMatrix<double> points;  // [n, 2], centred
  /// sqrt(sum (given - drawn)^2 / sum given^2) over all pairs of distances (stress-1 of Kruskal 1964,
  /// normalised by the given distances); 0: the map is exact. nullopt where no distance is over 0.
  std::optional<double> stress;
  /// The two largest eigenvalues over the sum of the magnitudes of all, in [0, 1]; nullopt as above.
  std::optional<double> share;
};

/// Classical multidimensional scaling (Torgerson 1952) of a symmetric matrix of distances [n, n], all finite:
/// the two strongest eigenvectors of -1/2 J D^2 J, J = I - 1/n, each times the root of its value. Where a
/// value is not positive its coordinate is 0. The entry of largest magnitude of each coordinate is positive.
[[nodiscard]] PlanarMap classical_mds(MatrixView<const double> distances);

}  // namespace attnctl
