#pragma once

#include <vector>

#include "cli/analyses/results.hpp"
#include "results/result.hpp"

namespace attnctl::cli {

/// Throws Error(usage) where something was asked for that has no table.
void require_tables(const Includes& includes);

/// The CSV tables of what was computed (docs/cli.md): heads, subspace_similarity, patterns, inputs,
/// singular_values. The rows of patterns are made on demand and borrow from `results`.
[[nodiscard]] std::vector<Table> analysis_tables(const RunResults& results);

}  // namespace attnctl::cli
