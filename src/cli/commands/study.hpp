#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "results/results.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::cli {

/// Output formats of `study` and `merge`.
inline const std::vector<std::string> study_formats = {"json", "jsonl", "csv", "svg", "text"};

/// Returns the target of the results of `study` and `merge`.
[[nodiscard]] Target study_target(const OutputOptions& options,
                                  const std::vector<std::filesystem::path>& inputs,
                                  std::vector<OutputPath> states);

/// Returns the results of a study, with the head of its document.
[[nodiscard]] Results finished_study(const StudyState& state, Session& session);

}  // namespace attnctl::cli
