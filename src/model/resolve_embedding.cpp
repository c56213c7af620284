#include "attnctl/base/error.hpp"

#include "model/resolve.hpp"

namespace attnctl {
namespace {

std::size_t resolve_padding(const SizeKey& key, const ConfigReader& config) {
  return config.index(std::span(key.names)).value_or(key.otherwise.value_or(0));
}

}  // namespace

std::size_t resolve_max_positions(const ConfigKeys& keys, const ConfigReader& config) {
  const std::size_t rows = config.size(keys.max_positions);
  if (keys.padding.names.empty()) return rows;
  const std::size_t padding = resolve_padding(keys.padding, config);
  if (rows > padding + 1) return rows - padding - 1;
  fail(Status::bad_input, "{}: {}: got {}, need more than {}, where positions begin past {} ({})",
       escaped(config.file()), config.pointer(keys.max_positions.names.front()), rows, padding + 1,
       config.pointer(keys.padding.names.front()), padding);
}

EmbeddingConfig resolve_embedding(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  const ConfigKeys& keys = family.keys;
  EmbeddingConfig embedding;
  embedding.vocabulary = config.size(keys.vocabulary);
  embedding.width =
      config.size(std::span(keys.embedding.names)).value_or(keys.embedding.otherwise.value_or(model.d_model));
  embedding.position = family.position;
  if (!family.embedding.token_type.empty()) embedding.token_types = config.size(keys.token_types);
  if (!family.embedding.norm.gain.empty()) embedding.norm = model.layers.at(0).norm;
  embedding.projection = resolve_parts(family.embedding.projection, config);
  if (family.embedding.projection.weight_presence.rule == Presence::Rule::width_differs &&
      embedding.width == model.d_model) {
    embedding.projection = {};
  }
  if (!keys.padding.names.empty()) {
    embedding.padding = resolve_padding(keys.padding, config);
    embedding.position_offset = *embedding.padding + 1;
  }
  return embedding;
}

}  // namespace attnctl
