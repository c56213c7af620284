#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// The parts of one layer that must be computed.
struct LayerPlan {
  std::vector<std::uint8_t> shown;     // [heads], 1: observers see the head
  std::vector<std::uint8_t> computed;  // [heads], 1: the head is computed
  bool patterns = false;               // linear and strided attention can do without
  bool scores = false;
  bool values = false;
  bool z = false;
  bool output = false;        // the attention output
  bool shows_output = false;  // to observers
  bool shows_stream = false;
  bool routing = false;  // observers see the expert routes of tokens
  bool onward = false;   // residual and MLP: later layers or the logits follow
};

/// The parts of the whole pass that must be computed, for an observer or for a later layer.
struct Plan {
  std::vector<LayerPlan> layers;  // up to the last needed one
  bool logits = false;
};

/// Plans a pass. Throws Error(bad_input), with the name `model`, if a layer without output comes before the
/// last needed one.
[[nodiscard]] Plan make_plan(std::string_view model, const ModelConfig& config, const Selection& selection,
                             const Needs& needs);

}  // namespace attnctl::forward
