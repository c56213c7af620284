#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// A linear function of points, q.x. If `exact` is empty, `values` are exact; otherwise `exact` holds them as
/// fractions ("-3/7") and `values` are rounded.
struct HullQuery {
  std::vector<double> values;
  std::vector<std::string> exact;
};

/// The weight of one point in a convex combination.
struct HullWeight {
  std::size_t point = 0;
  double weight = 0;  // rounded
  std::string exact;  // "1/2"
};

/// The position of a point p relative to the convex hull of its set, with a proof.
struct HullPoint {
  bool vertex = false;              // p is a vertex of the hull and no other point equals p
  std::optional<std::size_t> twin;  // the first other point that equals p

  // For a vertex: q with q.p > q.x for every other point x.
  HullQuery witness;
  /// q.p - max q.x. With |q_i| <= 1 about the largest possible value, which is the L1 distance from p to the
  /// hull of the others. nullopt without other points.
  std::optional<double> margin;

  // For any other point: p = sum of weight x over at most d + 1 other points. Weights are positive and sum
  // to 1.
  std::vector<HullWeight> combination;
  // For any other point on the relative boundary: q with p among its maxima, some other point below, and as
  // few ties as possible. Empty for an inner point.
  HullQuery support;
  std::vector<std::size_t> ties;  // other points with q.x = q.p
};

/// Decides which points [m, d] are vertices of their convex hull. At a vertex, a linear function has its
/// only maximum. A linear program in double proposes each answer, and exact arithmetic proves it. If rounding
/// errors made the proposal wrong, an exact linear program decides. Throws Error(bad_input) if a point is not
/// finite.
[[nodiscard]] std::vector<HullPoint> hull_points(MatrixView<const double> points, Pool& pool);

/// Parses keys of the form "10,0;0,10". `name` is the name of the text, for errors. Throws Error(usage) for
/// anything but numbers, and for keys of different sizes.
[[nodiscard]] OwnedMatrix<double> parse_keys(std::string_view text, const std::string& name);

/// Parses keys from a JSON document such as [[10, 0], [0, 10]]. Throws Error(bad_input).
[[nodiscard]] OwnedMatrix<double> parse_json_keys(const std::string& document, const std::string& name);

/// Decides which keys [m, d] a head can select. For each key, reports a query whose score q.k is highest
/// only at this key. If there is none, reports the convex combination of other keys that proves it, and for
/// a key on the boundary a query with a tie. Compares this with d heads, one per
/// coordinate, that give each key its lowest score, and reports whether they select the key. summary.keys
/// holds the full proofs, the rows as text. Throws Error(bad_input) if `keys` is empty or a key is not
/// finite.
[[nodiscard]] ExperimentResult hull_experiment(MatrixView<const double> keys, Pool& pool);

}  // namespace attnctl
