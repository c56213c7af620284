#pragma once

#include <vector>

#include "cli/analyses/results.hpp"
#include "results/results.hpp"

namespace attnctl::cli {

/// Throws Error(usage) if a requested result has no CSV table.
void require_tables(const Includes& includes);

/// Returns the CSV tables of the computed results (docs/cli.md): heads, subspace_similarity, patterns,
/// inputs, singular_values. The rows of `patterns` are computed on demand and borrow from `results`.
[[nodiscard]] std::vector<Table> analysis_tables(const RunResults& results);

}  // namespace attnctl::cli
