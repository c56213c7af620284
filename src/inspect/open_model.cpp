#include "inspect/open_model.hpp"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/source.hpp"

namespace attnctl::inspect {

OpenModel open_model(const std::string& model, const std::optional<std::string>& config, Warnings& warnings) {
  SourceOptions options;
  if (config) options.config = *config;
  ModelSource source = open_model_source(model, options, warnings);
  TokenizerOrigin tokenizer{source.directory, source.weights->tokenizer()};
  Model bound = Model::bind(std::move(source), warnings);
  Vocabulary vocabulary;
  if (!bound.config().vocabulary.empty()) {
    vocabulary = Vocabulary(bound.config().vocabulary, {});
  } else if (!tokenizer.empty()) {
    vocabulary = read_vocabulary(tokenizer);
  }
  // The configuration can list special tokens that the tokenizer files do not mark as special.
  for (const std::int64_t id : bound.config().special_ids) vocabulary.mark_special(id);
  return {std::move(bound), std::move(vocabulary), TextEncoder(std::move(tokenizer), model)};
}

TokenizerOrigin tokenizer_origin(const std::string& model) {
  TokenizerOrigin origin{model_directory(model), nullptr};
  if (std::filesystem::is_regular_file(model)) origin.section = read_tokenizer_section(model);
  return origin;
}

}  // namespace attnctl::inspect
