#pragma once

#include <string>
#include <string_view>

#include "analysis/model_summary.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "base/warnings.hpp"
#include "cli/options/options.hpp"
#include "input/sequences.hpp"
#include "inspect/open_model.hpp"
#include "model/model.hpp"
#include "results/results.hpp"

namespace attnctl::cli {

/// Returns for example "attnctl 0.1.0 (OpenBLAS 0.3.21, kernel SkylakeX, avx512)".
[[nodiscard]] std::string version_text();

/// Writes a whole output to standard output.
void write_to_stdout(std::string_view text);

/// The workers, warnings and progress bar of one command.
struct Session {
  explicit Session(const ResourceOptions& options);

  Pool pool;
  Progress progress;
  Warnings warnings;
  const ResourceOptions& options;
};

using inspect::OpenModel;
[[nodiscard]] OpenModel open_model(const ModelOptions& options, Warnings& warnings);

/// Returns the record "attnctl" of a document: {"version", "blas", "kernel", "threads"}. The documents of
/// `study` and `merge` have their own record without "threads".
[[nodiscard]] Record tool_record(const Session& session);

/// Returns the section of warnings, the last section of every document.
[[nodiscard]] Section warnings_section(const Warnings& warnings);

/// Prints the warnings to standard error, one line per warning, unless --quiet is given.
void print_warnings(const Session& session);

/// Runs the last checks before an output is committed. Throws Error if an input file became shorter while it
/// was read. Under --strict, also throws Error for non-finite numbers (warnings whose code starts with
/// "non_finite").
void check_before_commit(const Session& session);

}  // namespace attnctl::cli
