#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl::textbook {

/// The coefficients q of a linear function q.x of a point x. If `exact` is empty, `values` are exact.
/// Otherwise, `exact` holds the coefficients as fractions ("-3/7") and `values` are rounded.
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

/// The position of a point p of a set relative to the convex hull of the set, with a proof.
struct HullPoint {
  bool vertex = false;              // p is a vertex of the hull and no other point equals p
  std::optional<std::size_t> twin;  // the first other point that equals p

  // Only for a vertex: coefficients q with q.p > q.x for every other point x.
  HullQuery witness;
  /// q.p minus the largest q.x of another point x. Approximately the largest value that is possible with
  /// |q_i| <= 1, which is the L1 distance from p to the hull of the other points. nullopt without
  /// other points.
  std::optional<double> margin;

  // Only if p is not a vertex: p as a convex combination of at most d + 1 other points. The weights are
  // positive and sum to 1.
  std::vector<HullWeight> combination;
  // Only if p is on the relative boundary but is not a vertex: coefficients q with q.p >= q.x for every other
  // point x, and q.p > q.x for at least one. q has as few ties as possible. Empty for an inner point.
  HullQuery support;
  std::vector<std::size_t> ties;  // the other points x with q.x = q.p, where q is `support`
};

/// Decides which points [m, d] are vertices of their convex hull. A point is a vertex if some linear function
/// has its only maximum at this point. For each point, a linear program in double proposes such a function,
/// and exact arithmetic checks it. If the check fails, an exact linear program decides. Throws
/// Error(bad_input) if a point is not finite.
[[nodiscard]] std::vector<HullPoint> hull_points(MatrixView<const double> points, Pool& pool);

/// Parses keys of the form "10,0;0,10". For errors, `name` is the name of the text. Throws Error(usage) if an
/// item is not a number or if the keys have different sizes.
[[nodiscard]] OwnedMatrix<double> parse_keys(std::string_view text, const std::string& name);

/// Parses keys from a JSON document such as [[10, 0], [0, 10]]. For errors, `name` is the name of the
/// document. Throws Error(bad_input) if the document is not such a list or if the keys have different sizes.
[[nodiscard]] OwnedMatrix<double> parse_json_keys(const std::string& document, const std::string& name);

/// Decides which keys [m, d] a head can select. For each key k, reports a query q for which k has a higher
/// score q.k than all other keys. If none exists, reports a convex combination of other keys that equals k;
/// for a key on the boundary, also reports a query whose highest score k shares with other keys. Also reports
/// which key d heads select together, if head i scores a key with the key's coordinate i and the key whose
/// lowest score is the highest wins; no key wins a tie. summary.keys holds the full proofs. The rows hold
/// them as shortened text. Throws Error(bad_input) if `keys` is empty or a key is not finite.
[[nodiscard]] ExperimentResult hull_experiment(MatrixView<const double> keys, Pool& pool);

}  // namespace attnctl::textbook
