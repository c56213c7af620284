#pragma once

#include <string>
#include <vector>

#include "forward/run.hpp"
#include "model/config/config.hpp"

namespace attnctl::inspect {

/// A choice of heads by lists. An empty list selects all.
struct HeadChoice {
  std::string component;  // "encoder,cross"
  std::string layers;     // "0,3-5", numbered per component
  std::string heads;      // "0.1,2.3", or "enc.0.1" for a model with components
};

/// Returns the chosen heads in ascending order. If `targets` is false, only heads of an encoder can be
/// chosen. Throws Error(usage) for a malformed list, and for a component, layer or head that the model does
/// not have.
[[nodiscard]] Selection select_heads(const HeadChoice& choice, const ModelConfig& config,
                                     bool targets = true);

/// Parses numbers and ranges such as "0,3-5" into ascending unique numbers. `option` is its name, for errors.
[[nodiscard]] std::vector<std::size_t> parse_ranges(const std::string& option, const std::string& list,
                                                    std::size_t count);

}  // namespace attnctl::inspect
