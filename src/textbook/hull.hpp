#pragma once

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Decides which keys [m, d] a head can select. For each key, reports a query whose score q.k is highest
/// only at this key. If there is none, reports the convex combination of other keys that proves it, and for
/// a key on the boundary a query with a tie (textbook/convex_hull.hpp). Compares this with d heads, one per
/// coordinate, that give each key its lowest score, and reports whether they select the key. summary.keys
/// holds the full proofs, the rows as text. Throws Error(bad_input) if `keys` is empty or a key is not
/// finite.
[[nodiscard]] ExperimentResult hull_experiment(MatrixView<const double> keys, Pool& pool);

}  // namespace attnctl
