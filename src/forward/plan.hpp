#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// What a forward pass computes, and how much memory it needs.
namespace attnctl::forward {

/// The parts of one layer that a pass computes, and those that it passes to observers.
struct LayerPlan {
  std::vector<std::uint8_t> shown;     // [heads], 1 if the head is passed to observers
  std::vector<std::uint8_t> computed;  // [heads], 1 if the head is computed
  bool patterns = false;               // observers need the patterns
  bool scores = false;
  bool values = false;
  bool z = false;
  bool output = false;        // the attention output is computed
  bool shows_output = false;  // the attention output is passed to observers
  bool shows_stream = false;  // the residual stream is passed to observers
  bool routing = false;       // the expert routes of tokens are passed to observers
  /// Compute the residual sum and the MLP, because later layers, logits, routing or Needs::end need them.
  bool onward = false;
};

/// The results of a pass that must be computed, because an observer or a later layer needs them.
struct PassPlan {
  std::vector<LayerPlan> layers;  // up to the last layer that is needed
  bool logits = false;
};

/// Makes the plan of a pass. Throws Error(bad_input) if later layers, logits or routing need the attention
/// output of a layer that has no values (W_V) or whose output has another width than the model. `model` is
/// the model's name in error messages.
[[nodiscard]] PassPlan make_plan(std::string_view model, const model::ModelConfig& config,
                                 const Selection& selection, const Needs& needs);

/// Settings of a run that pass_footprint() needs: the number of threads, and two members of RunContext.
struct PassShape {
  std::size_t threads = 1;
  std::size_t panel_rows = 128;
  std::size_t packed_rows = 1024;
};

/// Estimated upper bounds, in bytes, of the memory that a forward pass needs. The memory of observers is not
/// included.
struct PassFootprint {
  std::uint64_t resident_weights = 0;  // of all layers that are computed
  std::uint64_t streamed_weights = 0;  // of the largest layer
  std::uint64_t other_weights = 0;     // embeddings that are looked up; the output head if it is used
  std::uint64_t activations = 0;       // buffers of the largest Block in one layer; rotary tables; logits
  std::uint64_t workers = 0;           // panels and work buffers
  std::uint64_t row = 0;               // bytes per row in the buffers that are separate for each Block
  std::size_t block_rows = 0;          // largest number of query rows or of key rows of a Block

  /// Returns the total bytes if all weights stay in memory.
  [[nodiscard]] std::uint64_t resident() const;
  /// Returns the total bytes if each layer's weights are released after use, with RunContext::streamed_rows =
  /// `rows`.
  [[nodiscard]] std::uint64_t streamed(std::size_t rows) const;
  /// Returns the largest value of RunContext::streamed_rows whose total fits into `bytes`; 0 if not even the
  /// largest Block fits.
  [[nodiscard]] std::size_t streamed_rows(std::uint64_t bytes) const;
};

/// Estimates the memory of a pass from the configuration and the lengths of the sequences. Does not read the
/// weights. Throws the errors of make_plan and require_targets. Does not check the inputs.
[[nodiscard]] PassFootprint pass_footprint(const model::Model& model, const input::Batch& batch,
                                           const Selection& selection, const Needs& needs,
                                           const PassShape& shape);

}  // namespace attnctl::forward
