#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "cli/options/options.hpp"
#include "cli/options/target.hpp"
#include "forward/run.hpp"
#include "results/results.hpp"

namespace attnctl::cli {

void write_to_stdout(std::string_view text);

/// The workers, warnings and progress bar of one command.
struct Session {
  explicit Session(const ResourceOptions& options);

  [[nodiscard]] forward::RunContext context() {
    return {.pool = pool, .warnings = warnings, .progress = &progress};
  }

  Pool pool;
  Progress progress;
  Warnings warnings;
  const ResourceOptions& options;
};

/// Returns the record "attnctl" of a document: version, blas, kernel and threads. `study` and `merge` have
/// their own.
[[nodiscard]] Record tool_record(const Session& session);

[[nodiscard]] Section warnings_section(const Warnings& warnings);

/// Prints the warnings to standard error, one line per warning code, unless --quiet is given.
void print_warnings(const Session& session);

/// Throws Error if a mapped input file changed or could not be read. With --strict, also throws
/// Error(non_finite) if there is a warning whose code starts with "non_finite".
void check_before_commit(const Session& session);

/// Adds the warnings unused_columns for --columns with another format than text, unused_picture_options for
/// options of pictures with another format than SVG, PNG and PDF, and unused_page_options for those of pages.
void warn_unused_options(const Target& target, const OutputOptions& options, Warnings& warnings);

/// Adds the warning non_finite_result unless `count` is 0. `where` names a part of the results.
void warn_non_finite(Warnings& warnings, std::string_view where, std::uint64_t count);

/// Writes the results of one run in the format of `target`. Adds the warning non_finite_result if the results
/// have non-finite numbers. With --strict, these numbers are an error, which is thrown before the output is
/// committed or sent to a pipe.
class ResultWriter {
 public:
  /// Opens the output, so that an unwritable path fails before any computation. Calls warn_unused_options().
  ResultWriter(const Target& target, const OutputOptions& options, Session& session);

  /// Adds the fields "schema" and "attnctl" at the beginning of the document, then calls write(results).
  void write(std::string_view schema, Results results);
  /// Writes and commits the results; the format must not be npz. Appends the warnings of the session as the
  /// last section of a document, unless its last section is "warnings" already.
  void write(const Results& results);

 private:
  void write_table(OutputFile& out, const Table& table);
  void write_document(Document document);
  void write_text(const Results& results);
  void write_view(const View& view);
  void write_page(const Results& results);

  const Target& target_;
  const OutputOptions& options_;
  Session& session_;
  std::optional<OutputFile> out_;
  std::optional<OutputFolder> folder_;
};

}  // namespace attnctl::cli
