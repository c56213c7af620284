#include "inspect/open_model.hpp"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/source.hpp"

namespace attnctl::inspect {

OpenModel open_model(const std::string& model, const std::optional<std::string>& config, Warnings& warnings) {
  checkpoint::ModelSource source = checkpoint::open_model_source(model, config, warnings);
  tokenizer::TokenizerOrigin tokenizer{source.directory, source.weights->tokenizer()};
  model::Model bound = model::Model::bind(std::move(source), warnings);
  tokenizer::Vocabulary vocabulary;
  if (!bound.config().vocabulary.empty()) {
    vocabulary = tokenizer::Vocabulary(bound.config().vocabulary, {});
  } else if (!tokenizer.empty()) {
    vocabulary = tokenizer::read_vocabulary(tokenizer);
  }
  // The configuration can list special tokens that the tokenizer files do not mark as special.
  for (const std::int64_t id : bound.config().special_ids) vocabulary.mark_special(id);
  return {std::move(bound), std::move(vocabulary), input::TextEncoder(std::move(tokenizer), model)};
}

tokenizer::TokenizerOrigin tokenizer_origin(const std::string& model) {
  tokenizer::TokenizerOrigin origin{checkpoint::model_directory(model), nullptr};
  if (std::filesystem::is_regular_file(model)) origin.section = checkpoint::read_tokenizer_section(model);
  return origin;
}

}  // namespace attnctl::inspect
