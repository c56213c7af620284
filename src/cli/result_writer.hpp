#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/files/output_file.hpp"
#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "results/results.hpp"

namespace attnctl::cli {

/// Adds the warning non_finite_result if `count`, the number of non-finite numbers, is not 0. `where` is the
/// name of the table, array or section.
void warn_non_finite(Warnings& warnings, std::string_view where, std::uint64_t count);

/// Writes the results of one run in the format of `target`. Adds the warning non_finite_result if the results
/// have non-finite numbers. With --strict, these numbers are an error, which is thrown before the output is
/// committed or sent to a pipe.
class ResultWriter {
 public:
  /// Opens the output, so that an unwritable path fails before any computation.
  ResultWriter(const Target& target, const OutputOptions& options, Session& session);

  /// As write(results), after adding the fields "schema" and "attnctl" at the beginning of the document.
  void write(std::string_view schema, Results results);
  /// Writes and commits the results; the format must not be npz. Appends the warnings of the session as the
  /// last section of a document, unless its last section is "warnings" already.
  void write(const Results& results);

 private:
  void write_tables(const Results& results);
  void write_table(OutputFile& out, const Table& table);
  void write_document(Document document);
  void write_text(const Results& results);
  void write_view(const View& view);

  const Target& target_;
  const OutputOptions& options_;
  Session& session_;
  std::optional<OutputFile> out_;
  std::optional<OutputFolder> folder_;
};

}  // namespace attnctl::cli
