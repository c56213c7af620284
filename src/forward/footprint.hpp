#pragma once

#include <cstddef>
#include <cstdint>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// The settings of a run that its memory depends on.
struct PassShape {
  std::size_t threads = 1;
  std::size_t panel_rows = 128;
  std::size_t packed_rows = 1024;
};

/// Upper bounds, in bytes, of the memory of a forward pass without that of observers.
struct PassFootprint {
  std::uint64_t resident_weights = 0;  // of all layers of the pass
  std::uint64_t streamed_weights = 0;  // of the largest layer
  std::uint64_t other_weights = 0;     // embeddings that are looked up, and the output head
  std::uint64_t activations = 0;       // of the largest block, in one layer
  std::uint64_t workers = 0;           // panels and work buffers
  std::uint64_t row = 0;               // for each row of the blocks that share a read of a layer
  std::size_t block_rows = 0;          // rows of the largest block

  /// Returns the total if all weights stay in memory.
  [[nodiscard]] std::uint64_t resident() const;
  /// Returns the total if weights are released layer by layer, with RunContext::streamed_rows = `rows`.
  [[nodiscard]] std::uint64_t streamed(std::size_t rows) const;
  /// Returns the streamed rows that fit into `bytes`; 0 if not even the largest block fits.
  [[nodiscard]] std::size_t streamed_rows(std::uint64_t bytes) const;
};

/// Estimates a pass from the configuration and the lengths of the batch, without reading weights. Throws as
/// run_forward does for what cannot be run.
[[nodiscard]] PassFootprint pass_footprint(const Model& model, const Batch& batch, const Selection& selection,
                                           const Needs& needs, const PassShape& shape);

}  // namespace attnctl
