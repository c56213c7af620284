#pragma once

#include <string>
#include <vector>

#include "forward/run.hpp"
#include "model/config/config.hpp"

namespace attnctl::inspect {

/// The options that select heads, as comma-separated lists. An empty list selects everything.
struct HeadChoice {
  std::string component;  // "encoder,cross"
  std::string layers;     // "0,3-5"; each component has its own numbers from 0
  std::string heads;      // "0.1,2.3"; "enc.0.1" if the model has components
};

/// Returns the selected heads in ascending order. `targets` is false if an encoder-decoder model runs without
/// targets; then only encoder heads can be selected. Throws Error(usage) if a list is malformed, or if the
/// model does not have a named component, layer or head.
[[nodiscard]] forward::Selection select_heads(const HeadChoice& choice, const model::ModelConfig& config,
                                              bool targets = true);

/// Parses a list of numbers and ranges such as "0,3-5". Returns the numbers in ascending order, each once.
/// Numbers must be less than `count`. Throws Error(usage) that names `option` if the list is invalid.
[[nodiscard]] std::vector<std::size_t> parse_ranges(const std::string& option, const std::string& list,
                                                    std::size_t count);

}  // namespace attnctl::inspect
