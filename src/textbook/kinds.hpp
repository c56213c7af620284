#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/axial.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Options of the comparison of attention kinds: their costs and their differences from full attention.
struct KindsOptions {
  std::size_t layer = 0;  // the layer to run with each kind
  std::vector<AttentionKind> kinds;
  std::optional<AxialGrid> grid;  // adds a row for axial attention; rows times columns must equal the length
  std::uint64_t memory = 0;       // maximum bytes of full patterns; 0: 4 GiB
};

/// Runs the layer of the model on the same input with every kind. Returns one row per kind, over all inputs
/// and heads: `flops` of scores and values over the visible keys (a multiply-add counts as 2),
/// `pattern_bytes` of the visible weights in float32, `kv_bytes_per_token`, `state_bytes` (linear attention:
/// the fixed-size state that replaces the cache), `total_variation` (mean over rows of half the sum of
/// |a - b|, where b is the full pattern) and `output_error` |y - y_full|_F / |y_full|_F of the layer's
/// attention output. Throws Error(limit) if the full patterns need too much memory, and Error(bad_input)
/// like run_forward.
[[nodiscard]] ExperimentResult kinds_experiment(const Model& model, const Batch& batch,
                                                const KindsOptions& options, RunContext& context);

}  // namespace attnctl
