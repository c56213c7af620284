#pragma once

#include "base/warnings.hpp"
#include "cli/analyses/results.hpp"
#include "report/npz/npz.hpp"

namespace attnctl::cli {

/// The arrays of an NPZ that stand before those of the pass: ids_I, target_ids_I, and of each component
/// layers and heads.
void add_selection_arrays(NpzWriter& npz, const RunResults& results);

/// The arrays of the weights analyses: qk_similarity, qk_effective_rank, qk_singular_values, qk_circuit, and
/// of OV. Heads whose values are wider than their queries have more singular values of OV than the array's
/// min(k, v): warning `singular_values_cut`.
void add_weights_arrays(NpzWriter& npz, const RunResults& results, Warnings& warnings);

}  // namespace attnctl::cli
