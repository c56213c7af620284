#pragma once

#include <cstddef>
#include <cstdint>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// The settings of a run on which its memory use depends.
struct PassShape {
  std::size_t threads = 1;
  std::size_t panel_rows = 128;
  std::size_t packed_rows = 1024;
};

/// Upper bounds, in bytes, of the memory that a forward pass needs. The memory of observers is not included.
struct PassFootprint {
  std::uint64_t resident_weights = 0;  // of all layers that are computed
  std::uint64_t streamed_weights = 0;  // of the largest layer
  std::uint64_t other_weights = 0;     // embedding tables that are read, and the output head
  std::uint64_t activations = 0;       // of the largest Block in one layer; rotary tables and logits
  std::uint64_t workers = 0;           // panels and work buffers
  std::uint64_t row = 0;               // bytes per row of the Blocks that go through a layer together
  std::size_t block_rows = 0;          // rows of the largest Block

  /// Returns the total bytes if all weights stay in memory.
  [[nodiscard]] std::uint64_t resident() const;
  /// Returns the total bytes if each layer's weights are released after use, with RunContext::streamed_rows =
  /// `rows`.
  [[nodiscard]] std::uint64_t streamed(std::size_t rows) const;
  /// Returns the largest value of RunContext::streamed_rows whose total fits into `bytes`; 0 if not even the
  /// largest Block fits.
  [[nodiscard]] std::size_t streamed_rows(std::uint64_t bytes) const;
};

/// Estimates the memory of a pass from the configuration and the lengths of the sequences. Does not read
/// weights. Throws the errors of make_plan and require_targets. Does not check the inputs.
[[nodiscard]] PassFootprint pass_footprint(const model::Model& model, const input::Batch& batch,
                                           const Selection& selection, const Needs& needs,
                                           const PassShape& shape);

}  // namespace attnctl::forward
