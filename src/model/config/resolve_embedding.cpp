#include <cmath>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "model/binding/tensor_names.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

/// Reads height and width: a list of both, or one size for both.
std::pair<std::size_t, std::size_t> resolve_extents(const SizeKey& key, const ConfigReader& config) {
  const auto value = config.find(key.names);
  if (!value || !value->json->is_array()) {
    const std::size_t size = config.size(key);
    return {size, size};
  }
  if (value->json->size() != 2) config.reject(*value, "a size, or height and width");
  const auto one = [&](std::size_t i) {
    const nlohmann::ordered_json wrapped = {{value->name, value->json->at(i)}};
    return ConfigReader(config.file(), wrapped, config.object_pointer()).size(key);
  };
  return {one(0), one(1)};
}

/// Returns image and patch sizes; not present if the family has no keys for them.
PatchGrid resolve_pixels(const ConfigKeys& keys, const ConfigReader& config) {
  PatchGrid grid;
  if (keys.channels.names.empty()) return grid;
  grid.channels = config.size(keys.channels);
  std::tie(grid.height, grid.width) = resolve_extents(keys.image, config);
  std::tie(grid.patch_height, grid.patch_width) = resolve_extents(keys.patch, config);
  const std::string image = config.pointer(keys.image.names.front());
  if (grid.patch_height > grid.height || grid.patch_width > grid.width) {
    fail(Status::bad_input, "{}: {}: got {} by {}, need at least {} by {}, the size of a patch ({})",
         escaped(config.file()), image, grid.height, grid.width, grid.patch_height, grid.patch_width,
         config.pointer(keys.patch.names.front()));
  }
  const auto values = checked_product(Shape{grid.channels, grid.height, grid.width});
  if (!values || *values > ConfigReader::largest_size) {
    fail(Status::limit, "{}: {}: got {} channels of {} by {}, the limit is {} values", escaped(config.file()),
         image, grid.channels, grid.height, grid.width, ConfigReader::largest_size);
  }
  return grid;
}

/// Returns the padding token's id if positions are counted from after its table row.
std::optional<std::size_t> resolve_padding(const SizeKey& key, const ConfigReader& config) {
  if (key.names.empty() && !key.default_value) return std::nullopt;
  return config.optional_index(key.names).value_or(key.default_value.value_or(0));
}

std::optional<TokenDropout> resolve_token_dropout(const TokenDropoutSpec& spec, const ConfigReader& config) {
  if (!config.flag(spec.enabled)) return std::nullopt;
  const auto token = config.optional_index({spec.token});
  if (!token) config.reject_missing(spec.token, fmt::format("an id, as /{} is true", spec.enabled));
  return TokenDropout{static_cast<std::int64_t>(*token), spec.kept};
}

/// Returns the family as if it were only its decoder, with one of the two attentions in every layer.
FamilySpec decoder_part(const FamilySpec& family, const ConfigReader& config, Component component) {
  const DecoderSpec& decoder = *family.decoder;
  FamilySpec part = family;
  const bool self = component == Component::decoder;
  part.stack.layer = self ? decoder.self : decoder.cross;
  part.stack.relative = self ? decoder.relative : std::nullopt;
  part.causal = self;
  part.embedding = decoder.embedding;
  part.keys.layers = decoder.layers;
  part.keys.heads = decoder.heads;
  part.keys.mlp_width = decoder.mlp_width;
  if (!config.flag(decoder.shared_vocabulary, true) && config.find(decoder.vocabulary.names))
    part.keys.vocabulary = decoder.vocabulary;
  return part;
}

std::vector<LayerConfig> component_layers(const FamilySpec& part, const ConfigReader& config,
                                          const NormConfig& norm, const ModelConfig& model,
                                          Component component) {
  ModelConfig only;
  only.d_model = model.d_model;
  only.max_positions = model.max_positions;
  resolve_layers(part, config, norm, only);
  for (LayerConfig& layer : only.layers) layer.component = component;
  return std::move(only.layers);
}

/// Uses a stored position table instead of computed positions, as the model was trained with it.
void prefer_stored_positions(const EmbeddingSpec& spec, const TensorNames& names,
                             EmbeddingConfig& embedding) {
  if (embedding.position != PositionKind::sinusoidal_halves) return;
  if (names.find_outside_layers(stored(spec.position))) embedding.position = PositionKind::learned;
}

std::optional<std::size_t> token_table(const EmbeddingSpec& spec, const TensorNames& names) {
  const auto found = names.find_outside_layers(stored(spec.token));
  return found ? std::optional(found->index) : std::nullopt;
}

Activation resolve_transform_activation(const FamilySpec& family, const ConfigReader& config,
                                        const ModelConfig& model) {
  const HeadSpec& spec = *family.head;
  if (!spec.activation_key.empty()) {
    const ConfigKeys keys = {.activation = {spec.activation_key}, .default_activation = spec.activation};
    return resolve_activation(keys, config);
  }
  return spec.activation.empty() ? model.layers.at(0).mlp.activation
                                 : activation_named(spec.activation, family.keys, config);
}

/// Sets the properties of the head that only the weights tell: present, tied and bias.
void inspect_stored_head(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                         Checkpoint& weights, HeadConfig& head) {
  const HeadSpec& spec = *family.head;
  const TensorNames names(family, weights, model.layers.size());
  const auto decoder = names.find_absolute(spec.decoder.weight);
  const auto token = token_table(family.decoder ? family.decoder->embedding : family.embedding, names);
  // Some tools store a tied output matrix twice.
  head.tied = !decoder || (token && same_values(weights, decoder->index, *token));
  if (spec.decoder.bias_presence.rule == Presence::Rule::stored)
    head.bias = names.find_absolute(spec.decoder.bias).has_value();
  const auto is_stored = [&](const LinearSpec& part) {
    return names.find_absolute(part.weight) || names.find_absolute(part.bias);
  };
  // If only the body of a model with an untied head was saved, its head is lost.
  const bool lost = !decoder && names.headless() && config.optional_flag("tie_word_embeddings") == false;
  head.present = head.transform ? is_stored(spec.transform) || is_stored(spec.decoder) : !lost;
}

/// Removes a projection that exists only where the widths differ, if they are equal.
LinearParts unless_same_width(LinearParts parts, const LinearSpec& spec, bool same_width) {
  const bool removed = same_width && spec.weight_presence.rule == Presence::Rule::width_differs;
  return removed ? LinearParts{} : parts;
}

}  // namespace

std::optional<std::size_t> resolve_max_positions(const ConfigKeys& keys, const ConfigReader& config) {
  if (const PatchGrid grid = resolve_pixels(keys, config); grid.present()) return grid.patches() + 1;
  if (keys.max_positions.names.empty() && !keys.max_positions.default_value) return std::nullopt;
  const std::size_t rows = config.size(keys.max_positions);
  const auto padding = resolve_padding(keys.padding, config);
  if (!padding) return rows;
  if (rows > *padding + 1) return rows - *padding - 1;
  const std::string origin =
      keys.padding.names.empty()
          ? fmt::format("{}", *padding)
          : fmt::format("{} ({})", config.pointer(keys.padding.names.front()), *padding);
  fail(Status::bad_input, "{}: {}: got {}, need more than {}, because positions start after {}",
       escaped(config.file()), config.pointer(keys.max_positions.names.front()), rows, *padding + 1, origin);
}

EmbeddingConfig resolve_embedding(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  const ConfigKeys& keys = family.keys;
  EmbeddingConfig embedding;
  embedding.pixels = resolve_pixels(keys, config);
  if (!embedding.pixels.present()) embedding.vocabulary = config.size(keys.vocabulary);
  embedding.width = config.size(keys.embedding, model.d_model);
  embedding.position = family.position;
  embedding.positions_last = family.positions_last;
  if (!family.embedding.token_type.empty()) {
    embedding.token_types =
        config.optional_index(keys.token_types.names).value_or(keys.token_types.default_value.value_or(0));
  }
  embedding.norm = with_tensors(model.layers.at(0).norm, family.embedding.norm);
  embedding.counts_visible = family.counts_visible;
  embedding.projected_first = family.projected_first;
  embedding.zero_hidden = family.zero_hidden;
  if (family.token_dropout) embedding.dropout = resolve_token_dropout(*family.token_dropout, config);
  const double root = family.scale_embedding ? std::sqrt(static_cast<double>(model.d_model)) : 1;
  embedding.multiplier = root * config.number(keys.embedding_multiplier);
  embedding.projection = unless_same_width(resolve_parts(family.embedding.projection, config),
                                           family.embedding.projection, embedding.width == model.d_model);
  embedding.padding = resolve_padding(keys.padding, config);
  embedding.position_offset = embedding.padding ? *embedding.padding + 1 : family.position_offset;
  return embedding;
}

void resolve_decoder(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                     const ModelSource& source, ModelConfig& model) {
  for (LayerConfig& layer : model.layers) layer.component = Component::encoder;
  const FamilySpec self = decoder_part(family, config, Component::decoder);
  const FamilySpec cross = decoder_part(family, config, Component::cross);
  const auto self_layers = component_layers(self, config, norm, model, Component::decoder);
  const auto cross_layers = component_layers(cross, config, norm, model, Component::cross);
  DecoderConfig decoder;
  decoder.embedding = resolve_embedding(cross, config, model);
  decoder.encoder_norm = with_tensors(norm, family.final_norm);
  if (const auto start = config.optional_index(family.decoder->start_token))
    decoder.start_token = static_cast<std::int64_t>(*start);
  decoder.shares_tokens = cross.keys.vocabulary.names == family.keys.vocabulary.names;
  if (source.weights) {
    const TensorNames names(family, *source.weights, model.layers.size());
    prefer_stored_positions(family.embedding, names, model.embedding);
    prefer_stored_positions(family.decoder->embedding, names, decoder.embedding);
    decoder.shares_tokens =
        token_table(family.embedding, names) == token_table(family.decoder->embedding, names);
  }
  for (std::size_t i = 0; i < self_layers.size(); ++i) {
    model.layers.push_back(self_layers[i]);
    model.layers.push_back(cross_layers[i]);
  }
  model.decoder = std::move(decoder);
  model.final_norm = with_tensors(norm, family.decoder->final_norm);
}

HeadConfig resolve_head(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                        Checkpoint* weights) {
  HeadConfig head;
  if (!family.head) return head;
  const HeadSpec& spec = *family.head;
  head.present = true;
  head.transform = !spec.transform.weight.empty();
  head.tied = config.flag("tie_word_embeddings", spec.tied_by_default);
  head.bias = resolve_parts(spec.decoder, config).bias;
  if (weights != nullptr) inspect_stored_head(family, config, model, *weights, head);
  if (!head.present) return {};
  if (head.transform) {
    head.transform_bias = resolve_parts(spec.transform, config).bias;
    head.activation = resolve_transform_activation(family, config, model);
    head.norm = with_tensors(model.layers.at(0).norm, spec.transform_norm);
  }
  head.projection = unless_same_width(resolve_parts(spec.projection, config), spec.projection,
                                      model.embedding.width == model.d_model);
  head.multiplier = static_cast<float>(config.number(family.keys.logit_multiplier));
  head.soft_cap = static_cast<float>(config.number(family.keys.logit_soft_cap));
  return head;
}

}  // namespace attnctl
