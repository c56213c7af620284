#pragma once

#include <string>
#include <vector>

#include "cli/options/options.hpp"
#include "report/text/text.hpp"
#include "results/result.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::cli {

/// What the writers take, for each kind of format. Nothing in it depends on threads, shards or restarts.
[[nodiscard]] Document study_document(const StudyState& state, const StudyResults& results);
[[nodiscard]] std::vector<Table> study_tables(const StudyState& state, const StudyResults& results);
[[nodiscard]] std::string study_text(const StudyState& state, const StudyResults& results,
                                     const OutputOptions& options, TextOptions style);

}  // namespace attnctl::cli
