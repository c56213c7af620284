#include "cli/session.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"
#include "base/memory.hpp"
#include "checkpoint/source.hpp"
#include "cli/version.hpp"
#include "linalg/blas.hpp"

namespace attnctl::cli {
namespace {

/// Marks the special tokens that the configuration names by id, in addition to those of the tokenizer files.
void add_special_ids(Vocabulary& vocabulary, const ModelConfig& config) {
  for (const std::int64_t id : config.special_ids) vocabulary.mark_special(id);
}

}  // namespace

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

Record model_record(const Model& model) {
  return config_record(model.config(), model.source().given, model.parameters());
}

namespace {

List components_list(const ModelConfig& config) {
  List components;
  for (const Component component : {Component::encoder, Component::decoder, Component::cross}) {
    const auto first = std::ranges::find(config.layers, component, &LayerConfig::component);
    Record record;
    record.set("component", std::string(name_of(component)))
        .set("layers", config.layers_of(component))
        .set("heads", first->attention.heads)
        .set("kv_heads", first->attention.kv_heads)
        .set("d_head", first->attention.d_head)
        .set("d_value", first->attention.d_value);
    components.emplace_back(std::move(record));
  }
  return components;
}

}  // namespace

Record config_record(const ModelConfig& config, Value path, std::uint64_t parameters) {
  const AttentionConfig& attention = config.layers.front().attention;
  Record record;
  record.set("path", std::move(path))
      .set("family", config.family)
      .set("layers", config.decoder
                         ? config.layers_of(Component::encoder) + config.layers_of(Component::decoder)
                         : config.layers.size())
      .set("heads", attention.heads)
      .set("kv_heads", attention.kv_heads)
      .set("d_model", config.d_model)
      .set("d_head", attention.d_head)
      .set("d_value", attention.d_value == 0 ? Value() : Value(attention.d_value))
      .set("parameters", static_cast<std::size_t>(parameters))
      .set("position_in_scores", config.position_in_scores());
  if (config.decoder) record.set("components", components_list(config));
  List kinds;
  for (const LayerConfig& layer : config.layers) kinds.emplace_back(to_string(layer.attention.kind));
  const bool other = std::any_of(config.layers.begin(), config.layers.end(), [](const LayerConfig& layer) {
    return layer.attention.kind != AttentionKind{};
  });
  if (other) record.set("attention", std::move(kinds));
  const bool sinks = std::any_of(config.layers.begin(), config.layers.end(),
                                 [](const LayerConfig& layer) { return layer.attention.sinks; });
  if (sinks) record.set("sinks", true);
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
