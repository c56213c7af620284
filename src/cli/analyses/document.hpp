#pragma once

#include "base/pool.hpp"
#include "cli/analyses/results.hpp"
#include "cli/session.hpp"
#include "results/result.hpp"

namespace attnctl::cli {

/// The JSON document attnctl.analysis/1 (docs/cli.md): sections that were not asked for are absent.
[[nodiscard]] Document analysis_document(const RunResults& results, const Session& session);

}  // namespace attnctl::cli
