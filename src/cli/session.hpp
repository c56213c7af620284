#pragma once

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "base/warnings.hpp"
#include "cli/options/options.hpp"
#include "input/text_encoder.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::cli {

/// The workers, warnings and progress bar of one command.
struct Session {
  explicit Session(const RunOptions& options);

  Pool pool;
  Progress progress;
  Warnings warnings;
  const RunOptions& options;
};

/// An opened and bound model, its vocabulary and its tokenizer. The vocabulary comes from the model's
/// directory or configuration. The tokenizer is opened at the first text input.
struct OpenModel {
  Model model;
  Vocabulary vocabulary;
  TextEncoder encoder;
};
[[nodiscard]] OpenModel open_model(const ModelOptions& options, Warnings& warnings);

/// Return the records "attnctl" and "model" of every document: {"version", "blas", "kernel", "threads"}, and
/// the identity and sizes of the model.
[[nodiscard]] Record tool_record(const Session& session);
[[nodiscard]] Record model_record(const Model& model);
/// Returns the "model" record of a configuration. `path` is null without weights.
[[nodiscard]] Record config_record(const ModelConfig& config, Value path, std::uint64_t parameters);

/// Returns the last section of every document.
[[nodiscard]] Section warnings_section(const Warnings& warnings);

/// Prints the warnings to standard error, one line per warning, unless --quiet is given.
void print_warnings(const Session& session);

/// Runs the last checks before an output is committed. Throws Error if an input file became shorter
/// while it was read. Under --strict, also throws Error for non-finite numbers (warnings whose code starts
/// with "non_finite").
void check_before_commit(const Session& session);

}  // namespace attnctl::cli
