#pragma once

#include "base/pool.hpp"
#include "cli/analyses/results.hpp"
#include "cli/session.hpp"
#include "results/results.hpp"

namespace attnctl::cli {

/// Returns the JSON document attnctl.analysis/1 (docs/cli.md). Leaves out the sections that were not
/// requested.
[[nodiscard]] Document analysis_document(const RunResults& results, const Session& session);

}  // namespace attnctl::cli
