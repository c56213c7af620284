#pragma once

#include "cli/options/options.hpp"
#include "inspect/selection.hpp"

namespace attnctl::cli {

using inspect::parse_ranges;

/// Returns the heads that --component, --layers and --heads select.
[[nodiscard]] inline Selection select_heads(const SelectionOptions& options, const ModelConfig& config,
                                            bool targets = true) {
  return inspect::select_heads({options.component, options.layers, options.heads}, config, targets);
}

}  // namespace attnctl::cli
