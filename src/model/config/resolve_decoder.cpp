#include <cstddef>
#include <optional>
#include <utility>

#include "model/binding/tensor_names.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

/// The family as if its decoder were all of it, with this one of its attentions in every layer.
FamilySpec decoder_part(const FamilySpec& family, const ConfigReader& config, Component component) {
  const DecoderSpec& decoder = *family.decoder;
  FamilySpec part = family;
  const bool own = component == Component::decoder;
  part.stack.layer = own ? decoder.self : decoder.cross;
  part.stack.relative = own ? decoder.relative : std::nullopt;
  part.causal = own;
  part.embedding = decoder.embedding;
  part.keys.layers = decoder.layers;
  part.keys.heads = decoder.heads;
  part.keys.mlp_width = decoder.mlp_width;
  const std::string& shared = decoder.vocabulary_shared_if;
  if (!shared.empty() && !config.flag(shared).value_or(true) && config.find(decoder.vocabulary.names))
    part.keys.vocabulary = decoder.vocabulary;
  return part;
}

/// All layers of one component.
std::vector<LayerConfig> layers_of(const FamilySpec& part, const ConfigReader& config, const NormConfig& norm,
                                   const ModelConfig& model, Component component) {
  ModelConfig alone;
  alone.d_model = model.d_model;
  alone.max_positions = model.max_positions;
  resolve_layers(part, config, norm, alone);
  for (LayerConfig& layer : alone.layers) layer.component = component;
  return std::move(alone.layers);
}

/// A table that the file has is what the model was run with, computed or not.
void prefer_stored_positions(const EmbeddingSpec& spec, const TensorNames& names,
                             EmbeddingConfig& embedding) {
  if (embedding.position != PositionKind::sinusoidal_halves) return;
  if (names.find_outside_layers(stored(spec.position))) embedding.position = PositionKind::learned;
}

std::optional<std::size_t> table_of(const EmbeddingSpec& spec, const TensorNames& names) {
  const auto found = names.find_outside_layers(stored(spec.token));
  return found ? std::optional(found->index) : std::nullopt;
}

}  // namespace

void resolve_decoder(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                     const ModelSource& source, ModelConfig& model) {
  for (LayerConfig& layer : model.layers) layer.component = Component::encoder;
  const FamilySpec self = decoder_part(family, config, Component::decoder);
  const FamilySpec cross = decoder_part(family, config, Component::cross);
  const auto own = layers_of(self, config, norm, model, Component::decoder);
  const auto over_encoder = layers_of(cross, config, norm, model, Component::cross);
  DecoderConfig decoder;
  decoder.embedding = resolve_embedding(cross, config, model);
  decoder.encoder_norm = norm_of(norm, family.final_norm);
  if (const auto start = config.index(family.decoder->start_token))
    decoder.start_token = static_cast<std::int64_t>(*start);
  decoder.shares_tokens = cross.keys.vocabulary.names == family.keys.vocabulary.names;
  if (source.weights) {
    const TensorNames names(family, *source.weights, model.layers.size());
    prefer_stored_positions(family.embedding, names, model.embedding);
    prefer_stored_positions(family.decoder->embedding, names, decoder.embedding);
    decoder.shares_tokens = table_of(family.embedding, names) == table_of(family.decoder->embedding, names);
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    model.layers.push_back(own[i]);
    model.layers.push_back(over_encoder[i]);
  }
  model.decoder = std::move(decoder);
  model.final_norm = norm_of(norm, family.decoder->final_norm);
}

}  // namespace attnctl
