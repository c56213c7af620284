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

/// Runs the layer of the model on the same input with each kind of attention. Each row is for one kind, over
/// all inputs and heads: `flops` of scores and values for the visible keys (a multiply-add counts as 2);
/// `pattern_bytes` of the visible weights as float32; `kv_bytes_per_token` of the cache; `state_bytes`, which
/// linear attention keeps instead of a cache, for any length; `total_variation`, the mean over rows of half
/// the sum of |a - b| with b the full pattern; and `output_error`, |y - y_full|_F / |y_full|_F of the layer's
/// attention output. Throws Error(limit) if the full patterns need more memory than allowed, and
/// Error(bad_input) as run_forward does.
[[nodiscard]] ExperimentResult kinds_experiment(const Model& model, const Batch& batch,
                                                const KindsOptions& options, RunContext& context);

}  // namespace attnctl
