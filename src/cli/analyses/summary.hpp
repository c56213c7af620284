#pragma once

#include <string>

#include "cli/analyses/results.hpp"
#include "cli/options/options.hpp"
#include "report/text/text.hpp"

namespace attnctl::cli {

/// The readable summary: the model, effective ranks and similarity of its heads, what --from asked, and the
/// heads with their metrics, sorted and cut as the options say. Throws Error(usage) for a column to sort by
/// that does not exist.
[[nodiscard]] std::string summary_text(const Results& results, const OutputOptions& options,
                                       const TextOptions& style);

}  // namespace attnctl::cli
