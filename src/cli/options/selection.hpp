#pragma once

#include <string>
#include <vector>

#include "cli/options/options.hpp"
#include "forward/run.hpp"
#include "model/config/config.hpp"

namespace attnctl::cli {

/// The heads that --component, --layers and --heads pick, ascending; layers are counted in their component.
/// Without a target (`targets` false) only heads of an encoder can be picked. Throws Error(usage) for lists
/// that do not parse and for a component, layer or head that the model does not have.
[[nodiscard]] Selection select_heads(const SelectionOptions& options, const ModelConfig& config,
                                     bool targets = true);

/// Numbers and ranges, "0,3-5": ascending, unique. `option` is for errors.
[[nodiscard]] std::vector<std::size_t> parse_ranges(const std::string& option, const std::string& list,
                                                    std::size_t count);

}  // namespace attnctl::cli
