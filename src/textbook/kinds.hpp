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

/// Runs the layer of the model on the same input in every way; the model is left as it was. A row a kind, all
/// inputs and heads together: `flops` of scores and values over the keys that are visible (a multiply-add is
/// 2), `pattern_bytes` of the visible weights as float32, `kv_bytes_per_token`, `state_bytes` (linear: what
/// takes the cache's place, whatever the length), `total_variation` (mean over rows of half the sum of
/// |a - b|, b the full pattern) and `output_error` |y - y_full|_F / |y_full|_F of the layer's attention
/// output. Throws Error: limit where the full patterns take too much memory, bad_input as run_forward.
[[nodiscard]] ExperimentResult kinds_experiment(const Model& model, const Batch& batch,
                                                const KindsOptions& options, RunContext& context);

}  // namespace attnctl
