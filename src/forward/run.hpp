#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "base/warnings.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// What runs where, and what is told of it.
struct RunContext {
  Pool& pool;
  Warnings& warnings;
  Progress* progress = nullptr;
  std::size_t panel_rows = 128;    // query rows of a panel, at most
  std::size_t packed_rows = 1024;  // short sequences share the products of a block up to this many rows
  /// 0: weights stay, once a layer was used. Else they are given back layer by layer, and blocks of up to so
  /// many rows together, at least one block, go through a layer before the next is read. No result depends on
  /// it.
  std::size_t streamed_rows = 0;
};

/// The heads that observers are shown.
struct Selection {
  std::vector<HeadId> heads;  // ascending; unique

  [[nodiscard]] static Selection all(const ModelConfig& config);
  [[nodiscard]] std::vector<std::size_t> layers() const;  // ascending
};

/// One forward pass over all sequences in float32, each selected head shown to all observers panel by panel.
/// Stops at the last layer that is wanted, there after the patterns when nothing later is needed. Refuses
/// what the model cannot take (ids outside the vocabulary, more tokens than positions, no embedding table):
/// Error(bad_input), before any work. Warnings: fully_masked_row, non_finite_*, no_output_head.
void run_forward(const Model& model, const Batch& batch, const Selection& selection,
                 std::span<Observer* const> observers, RunContext& context);

/// The checks of run_forward alone.
void check_batch(const Model& model, const Batch& batch);

/// Throws Error(bad_input) where this layer is of the decoder and an input has no target.
void require_targets(const ModelConfig& config, const Batch& batch, std::size_t layer);

}  // namespace attnctl
