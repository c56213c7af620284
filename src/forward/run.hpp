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

/// Threads, block sizes and reporting of a run.
struct RunContext {
  Pool& pool;
  Warnings& warnings;
  Progress* progress = nullptr;
  std::size_t panel_rows = 128;    // largest number of query rows in a panel
  std::size_t packed_rows = 1024;  // largest number of rows in a block of several sequences
  /// 0: keep the weights of all layers. Otherwise release each layer after use, and take blocks with up to
  /// this many rows in total (at least one block) through a layer before reading the next one. No result
  /// depends on it.
  std::size_t streamed_rows = 0;
};

/// The heads that observers receive.
struct Selection {
  std::vector<HeadId> heads;  // ascending, without duplicates

  [[nodiscard]] static Selection all(const ModelConfig& config);
  [[nodiscard]] std::vector<std::size_t> layers() const;  // ascending
};

/// Runs all sequences through the model in float32 and passes each selected head to all observers, panel by
/// panel. Stops after the last result that an observer needs. Calls check_batch first.
/// Warnings: fully_masked_row, non_finite_*, no_output_head.
void run_forward(const Model& model, const Batch& batch, const Selection& selection,
                 std::span<Observer* const> observers, RunContext& context);

/// Throws Error(bad_input) if the model cannot take an input: ids outside the vocabulary, too many tokens,
/// embeddings or masks of the wrong shape.
void check_batch(const Model& model, const Batch& batch);

/// Throws Error(bad_input) if this layer belongs to the decoder and an input has no target.
void require_targets(const ModelConfig& config, const Batch& batch, std::size_t layer);

}  // namespace attnctl
