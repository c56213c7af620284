#pragma once

#include <string>
#include <vector>

#include "cli/options/options.hpp"
#include "forward/run.hpp"
#include "model/config/config.hpp"

namespace attnctl::cli {

/// Returns the heads that --component, --layers and --heads select, in ascending order. Layers are numbered
/// per component. If `targets` is false, only heads of an encoder can be selected. Throws Error(usage) for a
/// malformed list, and for a component, layer or head that the model does not have.
[[nodiscard]] Selection select_heads(const SelectionOptions& options, const ModelConfig& config,
                                     bool targets = true);

/// Parses numbers and ranges such as "0,3-5" into ascending unique numbers. `option` is its name, for errors.
[[nodiscard]] std::vector<std::size_t> parse_ranges(const std::string& option, const std::string& list,
                                                    std::size_t count);

}  // namespace attnctl::cli
