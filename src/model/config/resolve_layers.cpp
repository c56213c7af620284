#include <cmath>
#include <memory>

#include "model/config/resolve.hpp"
#include "model/rotary.hpp"

namespace attnctl {

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

NormConfig norm_of(NormConfig norm, const NormSpec& spec) {
  if (!spec.present()) return {};
  norm.gain = !spec.gain.empty();
  norm.bias = !spec.bias.empty();
  return norm;
}

namespace {

/// Layers with a window turn in a way of their own.
void turn_sliding_layers(const RotarySpec& spec, const ConfigReader& config, ModelConfig& model) {
  const auto rotary = std::make_shared<const RotaryConfig>(resolve_sliding_rotary(
      spec, config, model.layers.front().attention.d_head, model.max_positions.value()));
  for (LayerConfig& layer : model.layers) {
    if (layer.attention.kind.rule == AttentionKind::Rule::window) layer.attention.rotary = rotary;
  }
}

}  // namespace

void resolve_layers(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                    ModelConfig& model) {
  const std::size_t count = resolve_layer_count(family, config);
  const std::size_t groups = family.keys.groups.otherwise ? config.size(family.keys.groups) : 1;
  const auto turning =
      family.rotary ? resolve_turning_layers(*family.rotary, config, count) : std::vector<bool>(count, true);
  const auto windows =
      family.window ? resolve_windows(*family.window, config, turning) : std::vector<AttentionKind>(count);
  LayerConfig layer;
  layer.attention = resolve_attention(family, config, model);
  layer.attention.head_norm = norm_of(norm, family.stack.layer.query_norm);
  layer.attention.head_norm_span = family.head_norm_span;
  const std::vector<ExpertsConfig> experts = resolve_experts(family, config, count);
  layer.norm = norm_of(norm, family.stack.layer.attention_norm);
  layer.place = family.place;
  layer.parallel = family.parallel;
  layer.shared_norm =
      family.parallel && family.stack.layer.mlp_norm.gain == family.stack.layer.attention_norm.gain;
  layer.residual_multiplier = static_cast<float>(config.number(family.keys.residual_multiplier));
  const bool by_layer = family.keys.inverse_layer_if.empty()
                            ? false
                            : config.flag(family.keys.inverse_layer_if).value_or(false);
  for (std::size_t i = 0; i < count; ++i) {
    model.layers.push_back(layer);
    model.layers[i].number = i;
    model.layers[i].attention.kind = windows[i];
    model.layers[i].attention_normed = i > 0 || family.stack.layer.first_attention_normed;
    model.layers[i].experts = experts[i];
    model.layers[i].mlp = resolve_mlp(family, config, model.d_model, experts[i].count > 0);
    if (!turning[i]) model.layers[i].attention.rotary = nullptr;
    if (by_layer) model.layers[i].attention.scale /= static_cast<double>(i + 1);
    const double each = static_cast<double>(count) / static_cast<double>(groups);
    model.layers[i].stored_as = family.stack.numbering == Numbering::by_layer
                                    ? i
                                    : static_cast<std::size_t>(static_cast<double>(i) / each);
  }
  if (family.stack.convolution) model.layers.front().convolution = resolve_convolution(config, model);
  if (family.rotary && family.rotary->sliding) turn_sliding_layers(*family.rotary, config, model);
}

}  // namespace attnctl
