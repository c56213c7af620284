#pragma once

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Which keys [m, d] a head can point at: for each, a query whose score q.k is highest there alone, or the
/// convex combination of other keys that forbids it and, on the boundary, a query for which it ties
/// (textbook/convex_hull.hpp). Beside it d heads, one a coordinate, of which each key keeps its lowest score:
/// whether that picks the key. summary.keys holds the proofs in full, the rows as text. Throws
/// Error(bad_input): no keys, a key that is not finite.
[[nodiscard]] ExperimentResult hull_experiment(MatrixView<const double> keys, Pool& pool);

}  // namespace attnctl
