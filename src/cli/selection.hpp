#pragma once

#include "attnctl/forward/run.hpp"
#include "attnctl/model/config.hpp"

#include <string>
#include <vector>

#include "cli/options.hpp"

namespace attnctl::cli {

/// The heads that --layers and --heads pick, ascending. Throws Error(usage) for lists that do not parse and
/// for a layer or head that the model does not have.
[[nodiscard]] Selection select_heads(const SelectionOptions& options, const ModelConfig& config);

/// Numbers and ranges, "0,3-5": ascending, unique. `option` is for errors.
[[nodiscard]] std::vector<std::size_t> parse_ranges(const std::string& option, const std::string& list,
                                                    std::size_t count);

}  // namespace attnctl::cli
