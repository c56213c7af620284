#include <algorithm>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

ExpertsConfig resolve_one(const FamilySpec& family, const ConfigReader& config) {
  const ConfigKeys& keys = family.keys;
  const ExpertsSpec& spec = family.stack.layer.experts.value();
  ExpertsConfig experts;
  experts.count = config.size(keys.experts);
  experts.per_token = config.size(keys.experts_per_token);
  if (experts.per_token > experts.count) {
    fail(Status::bad_input, "{}: {}: got {}, need at most the {} experts ({})", escaped(config.file()),
         config.pointer(keys.experts_per_token.names.front()), experts.per_token, experts.count,
         config.pointer(keys.experts.names.front()));
  }
  experts.softmax_of_picked = family.softmax_of_picked;
  experts.renormalised = family.renormalised;
  experts.router_bias = !spec.router.bias.empty();
  experts.limit = static_cast<float>(config.number(keys.expert_limit));
  experts.alpha = config.number(family.keys.expert_alpha);
  if (!spec.shared_up.weight.empty()) experts.shared_width = config.size(keys.shared_width);
  return experts;
}

bool is_dense(const ConfigKeys& keys, const ConfigReader& config, std::size_t layer) {
  if (!keys.sparse_step.names.empty() && (layer + 1) % config.size(keys.sparse_step) != 0) return true;
  const auto listed = keys.dense_layers.empty() ? std::nullopt : config.find(keys.dense_layers);
  if (!listed) return false;
  if (!listed->json->is_array()) config.refuse(*listed, "a list of layers");
  return std::ranges::find(*listed->json, nlohmann::ordered_json(layer)) != listed->json->end();
}

}  // namespace

MlpConfig resolve_mlp(const FamilySpec& family, const ConfigReader& config, std::size_t d_model,
                      bool of_experts) {
  const LayerSpec& layer = family.stack.layer;
  const LinearSpec& up = of_experts ? layer.experts.value().up : layer.up;
  const LinearSpec& gate = of_experts ? layer.experts.value().gate : layer.gate;
  MlpConfig mlp;
  if (up.weight.empty()) return mlp;
  const SizeKey& width = of_experts && !family.keys.expert_width.names.empty() ? family.keys.expert_width
                                                                               : family.keys.mlp_width;
  mlp.width = config.size(std::span(width.names)).value_or(width.otherwise.value_or(4 * d_model));
  mlp.activation = resolve_activation(family.keys, config);
  mlp.gated = !gate.weight.empty();
  mlp.bias = resolve_parts(up, config).bias;
  return mlp;
}

std::vector<ExpertsConfig> resolve_experts(const FamilySpec& family, const ConfigReader& config,
                                           std::size_t layers) {
  std::vector<ExpertsConfig> all(layers);
  if (!family.stack.layer.experts) return all;
  const ExpertsConfig one = resolve_one(family, config);
  for (std::size_t i = 0; i < layers; ++i) {
    if (!is_dense(family.keys, config, i)) all[i] = one;
  }
  return all;
}

}  // namespace attnctl
