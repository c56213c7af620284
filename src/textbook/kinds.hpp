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
  /// If set, adds a row with the costs of axial attention over a grid of tokens, which is not run. The input
  /// must be one sequence of rows * columns tokens.
  std::optional<analysis::AxialGrid> grid;
  std::uint64_t memory = 0;  // limit for the patterns of full attention, in bytes; 0: 4 GiB
};

/// Runs the layer of the model on the same input with every kind. Returns one row per kind, over all inputs
/// and heads. Sizes are for float32. The columns are:
/// - flops: operations for scores and weighted values over the visible keys, or in linear attention for the
///   state; a multiply-add counts as 2
/// - pattern_bytes: size of the visible weights
/// - kv_bytes_per_token: size of the cached key and value of a token
/// - state_bytes: size of the state that replaces the cache in linear attention
/// - total_variation: mean over pattern rows of half the sum of |a - b|, where a is the row with this kind
///   and b the row with full attention
/// - output_error: |y - y_full|_F / |y_full|_F, where y is the attention output of the layer
///
/// Throws Error(limit) if the patterns of full attention need more than `memory` bytes, and Error(bad_input)
/// in the same cases as run_forward().
[[nodiscard]] ExperimentResult kinds_experiment(const model::Model& model, const input::Batch& batch,
                                                const KindsOptions& options, forward::RunContext& context);

}  // namespace attnctl::textbook
