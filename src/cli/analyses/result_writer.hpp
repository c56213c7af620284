#pragma once

#include <optional>

#include "base/files/output_file.hpp"
#include "cli/analyses/results.hpp"
#include "cli/options/analysis_request.hpp"
#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "report/csv.hpp"

namespace attnctl::cli {

/// Writes results in any format but npz, whose arrays stream to it during the pass. Made before the work: a
/// place that cannot be written to is known early.
class ResultWriter {
 public:
  ResultWriter(const Target& target, const AnalysisRequest& request, Session& session);
  /// Writes and commits.
  void write(const Results& results);

 private:
  void write_csv(const Results& results);

  const Target& target_;
  const AnalysisRequest& request_;
  Session& session_;
  std::optional<OutputFile> out_;    // none for a folder of tables
  std::optional<CsvFolder> folder_;  // of tables
};

}  // namespace attnctl::cli
