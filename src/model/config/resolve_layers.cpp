#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

/// Returns for each of `count` layers whether it has rotary position.
std::vector<bool> resolve_rotary_layers(const RotarySpec& spec, const ConfigReader& config,
                                        std::size_t count) {
  std::vector<bool> rotary(count, true);
  if (const auto listed = config.find(spec.nope_layers)) {
    const auto wrong = [](const auto& one) { return one != 0 && one != 1; };
    if (!listed->json->is_array() || listed->json->size() != count ||
        std::ranges::any_of(*listed->json, wrong)) {
      config.reject(
          *listed,
          fmt::format("a list of {} numbers: 1 for layers with rotary position, 0 for others", count));
    }
    for (std::size_t i = 0; i < count; ++i) rotary[i] = (*listed->json)[i] == 1;
  } else if (!spec.nope_interval.names.empty()) {
    const std::size_t interval = config.size(spec.nope_interval);
    for (std::size_t i = 0; i < count; ++i) rotary[i] = (i + 1) % interval != 0;
  }
  return rotary;
}

/// Returns the width of all windows, or nullopt if the configuration disables them.
std::optional<std::size_t> resolve_window_size(const WindowKeys& keys, const ConfigReader& config) {
  if (!keys.enabled.empty() && !config.flag(keys.enabled)) return std::nullopt;
  if (config.is_null(keys.size)) return std::nullopt;
  const std::size_t size = config.optional_size({keys.size}).value_or(keys.default_size);
  return size == 0 ? std::nullopt : std::optional(size);
}

/// Returns which layers the /layer_types list gives a window; nullopt without a list.
std::optional<std::vector<bool>> windows_by_type(const std::string& key, const ConfigReader& config,
                                                 std::size_t count) {
  const auto value = config.find(key);
  if (!value) return std::nullopt;
  if (!value->json->is_array() || value->json->size() != count)
    config.reject(*value, fmt::format("a list of {}, the type of each layer", count));
  std::vector<bool> windowed;
  for (const auto& type : *value->json) {
    if (type != "full_attention" && type != "sliding_attention")
      config.reject_unsupported({value->name, &type}, "full_attention, sliding_attention");
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

/// Returns the same from runs [[type, ...], times], each repeated; nullopt without a list.
std::optional<std::vector<bool>> windows_by_runs(const std::string& key, const ConfigReader& config,
                                                 std::size_t count) {
  const auto value = config.find(key);
  if (!value) return std::nullopt;
  const auto need = fmt::format("a list of [[\"global\" or \"local\", ...], times], {} types in all", count);
  std::vector<bool> windowed;
  if (!value->json->is_array()) config.reject(*value, need);
  for (const auto& run : *value->json) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_array() || run[0].empty() ||
        !run[1].is_number_unsigned() || run[1].get<std::uint64_t>() > count) {
      config.reject(*value, need);
    }
    for (std::uint64_t time = 0; time < run[1].get<std::uint64_t>(); ++time) {
      for (const auto& type : run[0]) {
        if (type != "global" && type != "local")
          config.reject_unsupported({value->name, &type}, "global, local");
        windowed.push_back(type == "local");
      }
      if (windowed.size() > count) config.reject(*value, need);
    }
  }
  if (windowed.size() != count) config.reject(*value, need);
  return windowed;
}

/// Returns which layers have a window if the configuration lists none.
std::vector<bool> windows_by_rule(const WindowKeys& keys, const ConfigReader& config,
                                  const std::vector<bool>& rotary) {
  const std::size_t count = rotary.size();
  std::vector<bool> windowed(count, true);
  for (std::size_t i = 0; keys.nope_layers_only && i < count; ++i) windowed[i] = !rotary[i];
  if (keys.period.default_value) {
    const std::size_t period = config.size(keys.period);
    for (std::size_t i = 0; i < count; ++i) windowed[i] = (keys.full_first ? i : i + 1) % period != 0;
  }
  if (keys.first.empty()) return windowed;
  const std::size_t first = config.optional_index({keys.first}).value_or(keys.default_first);
  for (std::size_t i = 0; i < count; ++i) {
    if (keys.windows_before_first ? i >= first : i < first) windowed[i] = false;
  }
  return windowed;
}

/// Returns which keys each layer attends to; `rotary` says which layers have rotary position.
std::vector<AttentionKind> resolve_windows(const WindowKeys& keys, const ConfigReader& config,
                                           const std::vector<bool>& rotary) {
  const std::size_t count = rotary.size();
  const auto size = resolve_window_size(keys, config);
  auto windowed = windows_by_type(keys.layer_types, config, count);
  if (!windowed) windowed = windows_by_runs(keys.type_runs, config, count);
  if (!windowed) windowed = size ? windows_by_rule(keys, config, rotary) : std::vector<bool>(count, false);
  std::vector<AttentionKind> kinds(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!(*windowed)[i]) continue;
    if (!size) {
      config.reject(
          *config.find({keys.layer_types, keys.type_runs}),
          fmt::format("full_attention only, or an enabled window width ({})", config.pointer(keys.size)));
    }
    kinds[i] = {AttentionKind::Rule::window, keys.two_sided ? *size / 2 + 1 : *size};
  }
  return kinds;
}

MlpConfig resolve_mlp(const FamilySpec& family, const ConfigReader& config, std::size_t d_model,
                      bool has_experts) {
  const LayerSpec& layer = family.stack.layer;
  const LinearSpec& up = has_experts ? layer.experts.value().up : layer.up;
  const LinearSpec& gate = has_experts ? layer.experts.value().gate : layer.gate;
  MlpConfig mlp;
  if (up.weight.empty()) return mlp;
  const bool own_width = has_experts && !family.keys.expert_width.names.empty();
  mlp.width = config.size(own_width ? family.keys.expert_width : family.keys.mlp_width, 4 * d_model);
  mlp.activation = resolve_activation(family.keys, config);
  mlp.gated = !gate.weight.empty();
  mlp.bias = resolve_parts(up, config).bias;
  return mlp;
}

ExpertsConfig resolve_experts(const FamilySpec& family, const ConfigReader& config) {
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
  experts.softmax_after_topk = family.softmax_after_topk;
  experts.renormalised = family.renormalised;
  experts.router_bias = !spec.router.bias.empty();
  experts.limit = static_cast<float>(config.number(keys.expert_limit));
  experts.alpha = config.number(keys.expert_alpha);
  if (!spec.shared_up.weight.empty()) experts.shared_width = config.size(keys.shared_width);
  return experts;
}

bool is_dense_layer(const ConfigKeys& keys, const ConfigReader& config, std::size_t layer) {
  if (!keys.sparse_step.names.empty() && (layer + 1) % config.size(keys.sparse_step) != 0) return true;
  const auto listed = config.find(keys.dense_layers);
  if (!listed) return false;
  if (!listed->json->is_array()) config.reject(*listed, "a list of layers");
  return std::ranges::count(*listed->json, nlohmann::ordered_json(layer)) > 0;
}

void set_sliding_rotary(const RotarySpec& spec, const ConfigReader& config, ModelConfig& model) {
  const auto rotary = std::make_shared<const RotaryConfig>(resolve_sliding_rotary(
      spec, config, model.layers.front().attention.d_head, model.max_positions.value()));
  for (LayerConfig& layer : model.layers) {
    if (layer.attention.kind.rule == AttentionKind::Rule::window) layer.attention.rotary = rotary;
  }
}

}  // namespace

void resolve_layers(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                    ModelConfig& model) {
  const LayerSpec& spec = family.stack.layer;
  const ConfigKeys& keys = family.keys;
  const std::size_t count = resolve_layer_count(family, config);
  const auto rotary =
      family.rotary ? resolve_rotary_layers(*family.rotary, config, count) : std::vector<bool>(count, true);
  const auto windows =
      family.window ? resolve_windows(*family.window, config, rotary) : std::vector<AttentionKind>(count);
  LayerConfig layer;
  layer.attention = resolve_attention(family, config, model);
  layer.attention.head_norm = with_tensors(norm, spec.query_norm);
  layer.attention.head_norm_span = family.head_norm_span;
  layer.norm = with_tensors(norm, spec.attention_norm);
  layer.place = family.place;
  layer.parallel = family.parallel;
  layer.shared_norm = family.parallel && spec.mlp_norm.gain == spec.attention_norm.gain;
  layer.residual_multiplier = static_cast<float>(config.number(keys.residual_multiplier));
  const ExpertsConfig experts = spec.experts ? resolve_experts(family, config) : ExpertsConfig{};
  const bool inverse_layer = config.flag(keys.inverse_layer_if);
  const std::size_t groups = keys.groups.default_value ? config.size(keys.groups) : 1;
  const double group_size = static_cast<double>(count) / static_cast<double>(groups);
  for (std::size_t i = 0; i < count; ++i) {
    LayerConfig& added = model.layers.emplace_back(layer);
    added.number = i;
    added.stored_as = family.stack.numbering == Numbering::by_layer
                          ? i
                          : static_cast<std::size_t>(static_cast<double>(i) / group_size);
    added.attention.kind = windows[i];
    added.attention_normed = i > 0 || spec.first_attention_normed;
    if (experts.count > 0 && !is_dense_layer(keys, config, i)) added.experts = experts;
    added.mlp = resolve_mlp(family, config, model.d_model, added.experts.count > 0);
    if (!rotary[i]) added.attention.rotary = nullptr;
    if (inverse_layer) added.attention.scale /= static_cast<double>(i + 1);
  }
  if (family.stack.convolution) model.layers.front().convolution = resolve_convolution(config, model);
  if (family.rotary && family.rotary->sliding) set_sliding_rotary(*family.rotary, config, model);
}

}  // namespace attnctl
