#pragma once

#include <optional>

#include "base/matrix_view.hpp"

namespace attnctl {

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

}  // namespace attnctl
