#include <utility>

#include "analysis/weights/circuit.hpp"

namespace attnctl {

std::span<const float> folded_gain(const Model& model, std::size_t layer) {
  const ModelConfig& config = model.config();
  const LayerConfig& here = config.layers.at(layer);
  const auto gain = [](const NormConfig& norm, const NormWeights& weights) -> std::span<const float> {
    if (norm.kind == NormKind::none) return {};
    return weights.gain;
  };
  if (here.place == NormPlace::none || here.place == NormPlace::output) return {};
  if (here.place != NormPlace::post && here.attention_normed)
    return gain(here.norm, model.layer(layer)->attention_norm);
  const bool begins_decoder = here.component == Component::decoder && here.number == 0;
  if (begins_decoder) return gain(config.decoder->embedding.norm, model.target_embedding()->norm);
  if (layer > 0) {
    if (here.place != NormPlace::post) return {};
    const LayerConfig& below = config.layers.at(layer - 1);
    const Lease<LayerWeights> lease = model.layer(layer - 1);
    const LayerWeights& weights = *lease;
    if (below.convolution) return gain(below.norm, weights.convolution_norm);
    return gain(below.norm, below.mlp.width > 0 ? weights.mlp_norm : weights.attention_norm);
  }
  if (model.embedding()->projection.present() && !config.embedding.projected_first) return {};
  return gain(config.embedding.norm, model.embedding()->norm);
}

std::span<const float> memory_gain(const Model& model) {
  const ModelConfig& config = model.config();
  if (config.decoder.value().encoder_norm.kind != NormKind::none) return model.encoder_norm().gain;
  std::size_t last = 0;
  while (config.layers.at(last + 1).component == Component::encoder) ++last;
  if (config.layers[last].place != NormPlace::post) return {};
  return model.layer(last)->mlp_norm.gain;
}

std::optional<CircuitFactor> projection_factor(const Model& model, std::size_t layer, Projection projection,
                                               bool fold_norm) {
  const Lease<AttentionWeights> lease = model.attention(layer);
  const AttentionWeights& weights = *lease;
  const AttentionConfig& attention = model.config().layers.at(layer).attention;
  const auto folded = [&](CircuitFactor factor) {
    if (!fold_norm) return factor;
    const bool of_memory =
        model.config().layers.at(layer).component == Component::cross && projection != Projection::query;
    factor.fold(of_memory ? memory_gain(model) : folded_gain(model, layer));
    return factor;
  };
  std::vector<std::size_t> slices;
  for (std::size_t head = 0; head < attention.heads; ++head) {
    slices.push_back(projection == Projection::query ? attention.query_slice(head) : attention.kv_head(head));
  }
  switch (projection) {
    case Projection::query:
      return folded(CircuitFactor::of_outputs(weights.query, attention.d_head, std::move(slices)));
    case Projection::key:
      return folded(CircuitFactor::of_outputs(weights.key, attention.d_head, std::move(slices)));
    case Projection::value:
      if (!weights.value.present()) return std::nullopt;
      return folded(CircuitFactor::of_outputs(weights.value, attention.d_value, std::move(slices)));
    case Projection::output:
      if (!weights.output.present()) return std::nullopt;
      return CircuitFactor::of_inputs(weights.output, attention.d_value);
  }
  return std::nullopt;
}

std::optional<CircuitFactors> circuit_factors(const Model& model, std::size_t layer, Circuit circuit,
                                              bool fold_norm) {
  const bool is_qk = circuit == Circuit::qk;
  auto left = projection_factor(model, layer, is_qk ? Projection::query : Projection::value, fold_norm);
  auto right = projection_factor(model, layer, is_qk ? Projection::key : Projection::output, fold_norm);
  if (!left || !right) return std::nullopt;
  return CircuitFactors{std::move(*left), std::move(*right)};
}

}  // namespace attnctl
