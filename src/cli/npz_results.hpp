#pragma once

#include "attnctl/report/npz.hpp"

#include "cli/results.hpp"

namespace attnctl::cli {

/// The arrays of an NPZ that stand before those of the pass: ids_I, layers, heads.
void add_selection_arrays(NpzWriter& npz, const Batch& batch, const Selection& selection);

/// The arrays of the weights analyses: qk_similarity, qk_effective_rank, qk_singular_values, qk_circuit, and
/// of OV.
void add_weights_arrays(NpzWriter& npz, const Results& results);

}  // namespace attnctl::cli
