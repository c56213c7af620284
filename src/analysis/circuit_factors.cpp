#include "attnctl/analysis/circuit.hpp"

namespace attnctl {

FoldedGain folded_gain(const Model& model, std::size_t layer) {
  const ModelConfig& config = model.config();
  const LayerConfig& here = config.layers.at(layer);
  const auto gain = [](const NormConfig& norm, const NormWeights& weights) -> FoldedGain {
    if (norm.kind == NormKind::none) return {};
    return {weights.gain, norm.gain_offset};
  };
  if (here.place == NormPlace::none) return {};
  if (here.place == NormPlace::pre) return gain(here.norm, model.layer(layer).attention_norm);
  if (layer > 0) {
    const LayerConfig& below = config.layers.at(layer - 1);
    const LayerWeights& weights = model.layer(layer - 1);
    return gain(below.norm, below.mlp.width > 0 ? weights.mlp_norm : weights.attention_norm);
  }
  if (model.embedding().projection.present()) return {};
  return gain(config.embedding.norm, model.embedding().norm);
}

std::optional<CircuitFactors> circuit_factors(const Model& model, std::size_t layer, Circuit circuit,
                                              bool fold_norm) {
  const AttentionWeights& weights = model.attention(layer);
  const AttentionConfig& attention = model.config().layers.at(layer).attention;
  const std::size_t shared = attention.heads / attention.kv_heads;
  const FoldedGain folded = fold_norm ? folded_gain(model, layer) : FoldedGain{};
  if (circuit == Circuit::qk) {
    // Where the query's weight serves as the key's, it has a slice for every head.
    const std::size_t key_slices = weights.key.out() / attention.d_head;
    CircuitFactors factors{
        CircuitFactor::of_outputs(weights.query, attention.d_head, 1),
        CircuitFactor::of_outputs(weights.key, attention.d_head, attention.heads / key_slices)};
    factors.left.fold(folded.gain, folded.offset);
    factors.right.fold(folded.gain, folded.offset);
    return factors;
  }
  if (!weights.value.present() || !weights.output.present()) return std::nullopt;
  CircuitFactors factors{CircuitFactor::of_outputs(weights.value, attention.d_value, shared),
                         CircuitFactor::of_inputs(weights.output, attention.d_value)};
  factors.left.fold(folded.gain, folded.offset);
  return factors;
}

}  // namespace attnctl
