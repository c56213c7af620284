#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"

namespace attnctl {

/// A linear function of points, q.x. `values` are exact where `exact` is empty; else they are rounded, and
/// `exact` has them as fractions ("-3/7").
struct HullQuery {
  std::vector<double> values;
  std::vector<std::string> exact;
};

/// A point's part of a convex combination.
struct HullWeight {
  std::size_t point = 0;
  double weight = 0;  // rounded
  std::string exact;  // "1/2"
};

/// Where a point of a set lies, each answer with its proof.
struct HullPoint {
  bool vertex = false;              // of the convex hull, and no other point equals it
  std::optional<std::size_t> twin;  // the first other point that is equal
  // Of a vertex: q with q.p > q.x for every other point x.
  HullQuery witness;
  std::optional<double> margin;  // q.p - max q.x; with |q_i| <= 1 about the largest there is, which is the L1
                                 // distance from p to the hull of the others. nullopt: there are no others
  // Of any other point: p = sum weight x over other points, weights positive, of sum 1, at most d + 1.
  std::vector<HullWeight> combination;
  // Of any other point on the relative boundary of the hull: q for which p is among the maxima, some other
  // point is not, and as few as can be tie. Without values where p lies inside: then every q that has p among
  // its maxima is the same for all points.
  HullQuery support;
  std::vector<std::size_t> ties;  // other points with q.x = q.p
};

/// Decides for each of the points [m, d] whether it is a vertex of their convex hull, that is, whether a
/// linear function has its only maximum there. Points are taken as the rational numbers that they are; a
/// linear program in double proposes, and every answer is proven in exact arithmetic, by an exact linear
/// program where rounding misled. Throws Error(bad_input) where a point is not finite.
[[nodiscard]] std::vector<HullPoint> hull_points(MatrixView<const double> points, Pool& pool);

}  // namespace attnctl
