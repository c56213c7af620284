#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// What has to be computed of one layer.
struct LayerPlan {
  std::vector<std::uint8_t> shown;     // [heads], 1: observers see the head
  std::vector<std::uint8_t> computed;  // [heads]
  bool patterns = false;               // kinds of attention that do without make none
  bool scores = false;
  bool values = false;
  bool z = false;
  bool output = false;        // the attention output
  bool shows_output = false;  // to observers
  bool shows_stream = false;
  bool routing = false;  // observers see the routes of tokens through experts
  bool onward = false;   // residual and MLP: the pass goes on
};

/// What has to be computed of the whole pass: nothing that neither an observer nor a later layer wants.
struct Plan {
  std::vector<LayerPlan> layers;  // up to the last that is needed
  bool logits = false;
};

/// Throws Error(bad_input) where the pass would have to go on through a layer that has no output; `model` is
/// the name to say then.
[[nodiscard]] Plan make_plan(std::string_view model, const ModelConfig& config, const Selection& selection,
                             const Needs& needs);

}  // namespace attnctl::forward
