#pragma once

#include "base/warnings.hpp"
#include "cli/analyses/results.hpp"
#include "report/npz.hpp"

namespace attnctl::cli {

/// Adds the first arrays of an NPZ: ids_I, target_ids_I, and `layers` and `heads` of each component.
void add_selection_arrays(NpzWriter& npz, const RunResults& results);

/// Adds the arrays of the weights analyses: qk_similarity, qk_effective_rank, qk_singular_values, qk_circuit,
/// and the same for OV. The array of the singular values of OV has min(k, v) values per head. If values are
/// wider than queries, adds the warning `singular_values_cut`.
void add_weights_arrays(NpzWriter& npz, const RunResults& results, Warnings& warnings);

}  // namespace attnctl::cli
