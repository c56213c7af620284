#pragma once

#include "attnctl/base/result.hpp"
#include "attnctl/report/text.hpp"
#include "attnctl/study/study_state.hpp"

#include <string>
#include <vector>

#include "cli/options.hpp"

namespace attnctl::cli {

/// What the writers take, for each kind of format. Nothing in it depends on threads, shards or restarts.
[[nodiscard]] Document study_document(const StudyState& state, const StudyResults& results);
[[nodiscard]] std::vector<Table> study_tables(const StudyState& state, const StudyResults& results);
[[nodiscard]] std::string study_text(const StudyState& state, const StudyResults& results,
                                     const OutputOptions& options, TextOptions style);

}  // namespace attnctl::cli
