#include "cli/session.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"
#include "base/memory.hpp"
#include "checkpoint/source.hpp"
#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::cli {
namespace {

/// Marks the special tokens that the configuration names by id, in addition to those of the tokenizer files.
void add_special_ids(Vocabulary& vocabulary, const ModelConfig& config) {
  for (const std::int64_t id : config.special_ids) vocabulary.mark_special(id);
}

}  // namespace

std::string version_number() {
  return ATTNCTL_VERSION;
}

std::string version_text() {
  return fmt::format("attnctl {} ({}, kernel {}, {})", version_number(), blas_name(), blas_kernel(),
                     kernels().name);
}

Session::Session(const RunOptions& run)
    : pool(run.threads == 0 ? available_threads() : run.threads),
      progress(run.progress, run.quiet),
      options(run) {
  if (run.memory != 0) give_back_freed_memory();
  set_blas_callers(pool.size());
}

OpenModel open_model(const ModelOptions& options, Warnings& warnings) {
  SourceOptions source_options;
  if (options.config) source_options.config = *options.config;
  ModelSource source = open_model_source(options.model, source_options, warnings);
  TokenizerOrigin tokenizer{source.directory, source.weights->tokenizer()};
  Model model = Model::bind(std::move(source), warnings);
  Vocabulary vocabulary;
  if (!model.config().vocabulary.empty()) {
    vocabulary = Vocabulary(model.config().vocabulary, {});
  } else if (!tokenizer.empty()) {
    vocabulary = read_vocabulary(tokenizer);
  }
  add_special_ids(vocabulary, model.config());
  return {std::move(model), std::move(vocabulary), TextEncoder(std::move(tokenizer), options.model)};
}

Record tool_record(const Session& session) {
  Record record;
  record.set("version", version_number())
      .set("blas", blas_name())
      .set("kernel", blas_kernel())
      .set("threads", session.pool.size());
  return record;
}

Section warnings_section(const Warnings& warnings) {
  List items;
  for (const Warning& warning : warnings.list()) items.emplace_back(warning_record(warning));
  return {"warnings", "warning", std::move(items)};
}

void print_warnings(const Session& session) {
  if (session.options.quiet) return;
  for (const Warning& warning : session.warnings.list()) {
    const std::string times = warning.count > 1 ? fmt::format(" ({} times)", warning.count) : "";
    std::fprintf(stderr, "attnctl: warning: %s%s\n", escaped(warning.message).c_str(), times.c_str());
  }
}

void check_before_commit(const Session& session) {
  check_mapped_files();
  if (!session.options.strict) return;
  for (const Warning& warning : session.warnings.list()) {
    if (warning.code.starts_with("non_finite")) {
      fail(Status::non_finite, "{} (--strict)", warning.message);
    }
  }
}

}  // namespace attnctl::cli
