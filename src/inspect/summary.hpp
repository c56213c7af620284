#pragma once

#include <vector>

#include "inspect/run_results.hpp"
#include "cli/options/options.hpp"

namespace attnctl::cli {

/// Returns the text summary: the model, the effective ranks and the similarity of its heads, the answers to
/// --from, and the heads with their metrics, ordered by --sort and limited by --top. Throws Error(usage) for
/// an unknown column in --sort.
[[nodiscard]] std::vector<PageBlock> summary_blocks(const RunResults& results, const OutputOptions& options);

}  // namespace attnctl::cli
