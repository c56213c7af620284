#pragma once

#include <optional>

#include "base/files/output_file.hpp"
#include "cli/options/options.hpp"
#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "report/csv.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::cli {

/// The formats that `study` and `merge` write, for --help.
inline const std::vector<std::string> study_formats = {"json", "jsonl", "csv", "svg", "text"};
[[nodiscard]] Target study_target(const OutputOptions& options,
                                  const std::vector<std::filesystem::path>& inputs);

/// Writes what a study came to. Opened before the work: a place that cannot be written to is known early.
class StudyOutput {
 public:
  StudyOutput(const Target& target, const OutputOptions& options, Session& session);
  /// Writes and commits.
  void write(const StudyState& state);

 private:
  void write_csv(const StudyState& state, const StudyResults& results);

  const Target& target_;
  const OutputOptions& options_;
  Session& session_;
  std::optional<OutputFile> out_;    // none for a folder of tables
  std::optional<CsvFolder> folder_;  // of tables
};

}  // namespace attnctl::cli
