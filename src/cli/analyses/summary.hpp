#pragma once

#include <vector>

#include "cli/analyses/results.hpp"
#include "cli/options/options.hpp"

namespace attnctl::cli {

/// Returns the readable summary: the model, effective ranks and similarity of its heads, the answers to
/// --from, and the heads with their metrics, sorted and cut as the options say. Throws Error(usage) for an
/// unknown column in --sort.
[[nodiscard]] std::vector<PageBlock> summary_blocks(const RunResults& results, const OutputOptions& options);

}  // namespace attnctl::cli
