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

namespace attnctl::forward {

/// Threads, warnings, progress output and sizes of the parts that are computed at once.
struct RunContext {
  Pool& pool;
  Warnings& warnings;
  Progress* progress = nullptr;
  std::size_t panel_rows = 128;    // largest number of query rows in a panel
  std::size_t packed_rows = 1024;  // largest number of query rows of a Block of several sequences
  /// If 0, the weights of all layers stay in memory. Otherwise the weights of a layer are released after use,
  /// and Blocks with up to this number of rows in total (at least one Block) are computed in a layer before
  /// the next layer is read. The results do not depend on this value.
  std::size_t streamed_rows = 0;
};

/// The heads that are passed to observers.
struct Selection {
  std::vector<model::HeadId> heads;  // ascending, without duplicates

  [[nodiscard]] static Selection all(const model::ModelConfig& config);
  [[nodiscard]] std::vector<std::size_t> layers() const;  // layers with selected heads, ascending
};

/// Runs all sequences through the model in float32 and passes the panels of each selected head to all
/// observers. Stops after the last selected layer, or after the logits if an observer needs them. Throws the
/// errors of check_batch, which it calls first, of make_plan and require_targets, and the exceptions of the
/// observers. May add the warnings fully_masked_row, non_finite_pattern, non_finite_score and no_output_head.
void run_forward(const model::Model& model, const input::Batch& batch, const Selection& selection,
                 std::span<Observer* const> observers, RunContext& context);

/// Checks whether the model can process the batch. Throws Error(bad_input) if not, for example for ids
/// outside the vocabulary, too many tokens, and embeddings or masks of the wrong shape. Accepts a missing
/// target, which only require_targets() checks.
void check_batch(const model::Model& model, const input::Batch& batch);

/// Throws Error(bad_input) if this layer belongs to the decoder and a sequence of the batch has no target.
void require_targets(const model::ModelConfig& config, const input::Batch& batch, std::size_t layer);

}  // namespace attnctl::forward
