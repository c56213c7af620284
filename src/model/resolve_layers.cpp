#include <cmath>

#include "model/resolve.hpp"

namespace attnctl {
namespace {

MlpConfig resolve_mlp(const FamilySpec& family, const ConfigReader& config, std::size_t d_model) {
  const LayerSpec& layer = family.stack.layer;
  MlpConfig mlp;
  if (layer.up.weight.empty()) return mlp;
  const auto& width = family.keys.mlp_width;
  mlp.width = config.size(std::span(width.names)).value_or(width.otherwise.value_or(4 * d_model));
  mlp.activation = resolve_activation(family.keys, config);
  mlp.gated = !layer.gate.weight.empty();
  mlp.bias = resolve_parts(layer.up, config).bias;
  return mlp;
}

}  // namespace

NormConfig resolve_norm(const FamilySpec& family, const ConfigReader& config) {
  const double eps = config.positive(family.keys.norm_eps).value_or(family.keys.norm_eps_otherwise);
  NormConfig norm;
  norm.kind = family.norm;
  norm.eps = static_cast<float>(eps);
  if (!(norm.eps > 0) || !std::isfinite(norm.eps)) {
    config.refuse(*config.find(family.keys.norm_eps), "a number that is above 0 in float32");
  }
  return norm;
}

void resolve_layers(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                    ModelConfig& model) {
  const std::size_t count = resolve_layer_count(family, config);
  const std::size_t groups = family.keys.groups.otherwise ? config.size(family.keys.groups) : 1;
  const auto windows =
      family.window ? resolve_windows(*family.window, config, count) : std::vector<AttentionKind>(count);
  LayerConfig layer;
  layer.attention = resolve_attention(family, config, model);
  if (!family.stack.layer.query_norm.gain.empty()) layer.attention.head_norm = norm;
  layer.mlp = resolve_mlp(family, config, model.d_model);
  layer.norm = norm;
  layer.place = family.place;
  const bool by_layer = family.keys.inverse_layer_if.empty()
                            ? false
                            : config.flag(family.keys.inverse_layer_if).value_or(false);
  for (std::size_t i = 0; i < count; ++i) {
    model.layers.push_back(layer);
    model.layers[i].attention.kind = windows[i];
    if (by_layer) model.layers[i].attention.scale /= static_cast<double>(i + 1);
    const double each = static_cast<double>(count) / static_cast<double>(groups);
    model.layers[i].stored_as = family.stack.numbering == Numbering::by_layer
                                    ? i
                                    : static_cast<std::size_t>(static_cast<double>(i) / each);
  }
}

}  // namespace attnctl
