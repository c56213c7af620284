#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// What a pass must compute in one layer, and what it passes to observers.
struct LayerPlan {
  std::vector<std::uint8_t> shown;     // [heads], 1 if the head is passed to observers
  std::vector<std::uint8_t> computed;  // [heads], 1 if the head is computed
  bool patterns =
      false;  // patterns are needed; if false, linear and strided attention compute z without them
  bool scores = false;
  bool values = false;
  bool z = false;
  bool output = false;        // the attention output
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

}  // namespace attnctl::forward
