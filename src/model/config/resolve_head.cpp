#include <optional>

#include "model/binding/same_values.hpp"
#include "model/binding/tensor_names.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

/// A decoder that is stored, but as a copy of the token embedding: some tools write tied weights twice.
bool is_copy_of_embedding(const FamilySpec& family, const TensorNames& names, const LocatedTensor& decoder,
                          Checkpoint& weights) {
  const EmbeddingSpec& embedding = family.decoder ? family.decoder->embedding : family.embedding;
  const auto token = names.find_outside_layers(stored(embedding.token));
  return token && same_values(weights, decoder.index, token->index);
}

Activation resolve_transform_activation(const FamilySpec& family, const ConfigReader& config,
                                        const ModelConfig& model) {
  const HeadSpec& spec = *family.head;
  if (!spec.activation_key.empty()) {
    const ConfigKeys keys = {.activation = {spec.activation_key}, .activation_otherwise = spec.activation};
    return resolve_activation(keys, config);
  }
  return spec.activation.empty() ? model.layers.at(0).mlp.activation
                                 : activation_named(spec.activation, family.keys, config);
}

}  // namespace

HeadConfig resolve_head(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                        Checkpoint* weights) {
  HeadConfig head;
  if (!family.head) return head;
  const HeadSpec& spec = *family.head;
  const bool transform = !spec.transform.weight.empty();
  head.present = true;
  const auto tie = config.flag("tie_word_embeddings");
  head.tied = tie.value_or(spec.tied_otherwise);
  std::optional<bool> stored_bias;  // where only the file tells
  if (weights != nullptr) {
    const TensorNames names(family, *weights, model.layers.size());
    const auto decoder = names.find_absolute(spec.decoder.weight);
    head.tied = !decoder || is_copy_of_embedding(family, names, *decoder, *weights);
    const auto stored_part = [&](const LinearSpec& part) {
      return names.find_absolute(part.weight) || names.find_absolute(part.bias);
    };
    if (spec.decoder.bias_presence.rule == Presence::Rule::stored)
      stored_bias = names.find_absolute(spec.decoder.bias).has_value();
    // A model of which only the body was saved, with a head of its own, has lost it.
    const bool lost = !decoder && names.headless() && tie == false;
    head.present = transform ? stored_part(spec.transform) || stored_part(spec.decoder) : !lost;
  }
  if (!head.present) return {};
  head.bias = stored_bias.value_or(resolve_parts(spec.decoder, config).bias);
  head.transform = transform;
  if (transform) {
    head.transform_bias = resolve_parts(spec.transform, config).bias;
    head.activation = resolve_transform_activation(family, config, model);
    head.norm = norm_of(model.layers.at(0).norm, spec.transform_norm);
  }
  head.projection = resolve_parts(spec.projection, config);
  if (model.embedding.width == model.d_model &&
      spec.projection.weight_presence.rule == Presence::Rule::width_differs) {
    head.projection = {};
  }
  head.multiplier = static_cast<float>(config.number(family.keys.logit_multiplier));
  head.soft_cap = static_cast<float>(config.number(family.keys.logit_soft_cap));
  return head;
}

}  // namespace attnctl
