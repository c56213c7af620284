#pragma once

#include <cstddef>
#include <cstdint>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// How a pass is going to be run.
struct PassShape {
  std::size_t threads = 1;
  std::size_t panel_rows = 128;
  std::size_t packed_rows = 1024;
};

/// Bytes that a forward pass takes at most, beside what the process has before and what observers keep.
struct PassFootprint {
  std::uint64_t resident_weights = 0;  // of all layers that the pass goes through, once they were used
  std::uint64_t streamed_weights = 0;  // of the largest layer alone
  std::uint64_t other_weights = 0;     // embeddings that are looked up, and the output head
  std::uint64_t activations = 0;       // of the largest block, in one layer
  std::uint64_t workers = 0;           // panels and work buffers
  std::uint64_t row = 0;               // what one more row of blocks that go through a layer together takes
  std::size_t block_rows = 0;          // of the largest block

  /// Where weights stay.
  [[nodiscard]] std::uint64_t resident() const;
  /// Where they are given back layer by layer: RunContext::streamed_rows, at least block_rows.
  [[nodiscard]] std::uint64_t streamed(std::size_t rows) const;
  /// The streamed rows that fit into so many bytes; 0 where not even the largest block does.
  [[nodiscard]] std::size_t streamed_rows(std::uint64_t bytes) const;
};

/// Depends on the configuration, the batch's lengths, the selection, what is needed and the shape of the run;
/// reads no weights. Throws as run_forward for what cannot be run.
[[nodiscard]] PassFootprint pass_footprint(const Model& model, const Batch& batch, const Selection& selection,
                                           const Needs& needs, const PassShape& shape);

}  // namespace attnctl
