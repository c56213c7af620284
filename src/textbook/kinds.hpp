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

namespace attnctl::textbook {

/// Options of the kinds experiment. It compares the costs of attention kinds and their differences from full
/// attention.
struct KindsOptions {
  std::size_t layer = 0;  // index of the layer that is run with each kind
  std::vector<model::AttentionKind> kinds;
  /// If set, adds a row for axial attention; rows times columns must equal the sequence length.
  std::optional<analysis::AxialGrid> grid;
  std::uint64_t memory = 0;  // largest size of the full patterns in bytes; 0: 4 GiB
};

/// Runs the layer of the model on the same input with every kind. Returns one row per kind, over all inputs
/// and heads. `flops` is the number of operations for scores and weighted values over the visible keys; a
/// multiply-add counts as 2. `pattern_bytes` is the size of the visible weights in float32. `state_bytes` is
/// the size of the state that replaces the cache in linear attention. `total_variation` is the mean over
/// pattern rows of half the sum of |a - b|, where a is the row with this kind and b the row with full
/// attention. `output_error` is |y - y_full|_F / |y_full|_F, where y is the attention output of the layer.
/// Throws Error(limit) if the full patterns need more than `memory` bytes, and Error(bad_input) in the same
/// cases as run_forward().
[[nodiscard]] ExperimentResult kinds_experiment(const model::Model& model, const input::Batch& batch,
                                                const KindsOptions& options, forward::RunContext& context);

}  // namespace attnctl::textbook
