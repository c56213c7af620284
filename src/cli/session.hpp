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

/// What a command works with: workers, warnings and the progress bar.
struct Session {
  explicit Session(const RunOptions& options);

  Pool pool;
  Progress progress;
  Warnings warnings;
  const RunOptions& options;
};

/// A model that was opened and bound, the vocabulary of its directory or configuration, and its tokenizer,
/// which is opened when a text comes.
struct OpenModel {
  Model model;
  Vocabulary vocabulary;
  TextEncoder encoder;
};
[[nodiscard]] OpenModel open_model(const ModelOptions& options, Warnings& warnings);

/// "attnctl" and "model" of every document: {"version", "blas", "kernel", "threads"} and the model's identity
/// and sizes.
[[nodiscard]] Record tool_record(const Session& session);
[[nodiscard]] Record model_record(const Model& model);
/// The same of a configuration: `path` is null where there are no weights.
[[nodiscard]] Record config_record(const ModelConfig& config, Value path, std::uint64_t parameters);

/// The last section of every document.
[[nodiscard]] Section warnings_section(const Warnings& warnings);

/// Warnings on standard error, one line each, unless --quiet.
void print_warnings(const Session& session);

/// Before an output is committed: inputs that were cut while they were read are an error, and under --strict
/// so are non-finite numbers (the warnings whose code begins with "non_finite").
void check_before_commit(const Session& session);

}  // namespace attnctl::cli
