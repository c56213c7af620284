#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "model/config/resolve.hpp"

namespace attnctl::model {
namespace {

std::size_t resolve_head_width(const FamilySpec& family, const ConfigReader& config, std::size_t d_model,
                               std::size_t heads) {
  const SizeKey& key = family.keys.d_head;
  if (const auto width = config.optional_size(key.names)) {
    config.check_limit(key.names, *width, kMaxHeadWidth);
    return *width;
  }
  if (key.default_value) return *key.default_value;
  check_multiple(config, family.keys.d_model.names, d_model, family.keys.heads.names, heads);
  return d_model / heads;
}

/// Returns the ALiBi slopes. Slope t (from 1) for n heads, a power of 2, is 2^(-8 t / n). If p is the largest
/// power of 2 up to `heads`, the result has all slopes for p heads, which are the slopes 2, 4, 6, ... for 2 p
/// heads, then the slopes 1, 3, 5, ... for 2 p heads.
std::vector<float> alibi_slopes(std::size_t heads) {
  const std::size_t n = 2 * std::bit_floor(heads);
  std::vector<float> slopes;
  for (std::size_t t = 2; slopes.size() < heads; t = t == n ? 1 : t + 2)
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(t) / static_cast<double>(n))));
  return slopes;
}

RelativeBuckets resolve_relative_buckets(const RelativeBucketSpec& spec, const ConfigReader& config) {
  RelativeBuckets relative;
  relative.bidirectional = spec.bidirectional;
  relative.buckets = config.size(spec.buckets);
  relative.max_distance = config.size(spec.max_distance);
  relative.rows = config.size(spec.rows, relative.buckets);
  const std::size_t fewest = spec.bidirectional ? 4 : 2;
  if (relative.buckets < fewest)
    config.refuse(spec.buckets.names, "got {}, need at least {}", relative.buckets, fewest);
  const std::size_t exact = relative.buckets / fewest;  // number of distances that have their own bucket
  if (relative.max_distance <= exact) {
    config.refuse(spec.max_distance.names,
                  "got {}, need more than {}, the number of distances with their own bucket",
                  relative.max_distance, exact);
  }
  if (relative.rows < relative.buckets)
    config.refuse(spec.rows.names, "got {}, need at least {}", relative.rows, relative.buckets);
  return relative;
}

/// Reads a list of strings, or one string of words that are separated by "|". Removes the spaces of such a
/// string and converts it to lower case. Returns an empty list if the key is missing.
std::vector<std::string> word_list(const std::string& key, const ConfigReader& config) {
  const auto value = config.find(key);
  if (!value) return {};
  if (value->json->is_string()) {
    std::string text = lower_case(value->json->get<std::string>());
    std::erase(text, ' ');
    const auto words = split(text, '|');
    return {words.begin(), words.end()};
  }
  const auto is_text = [](const auto& word) { return word.is_string(); };
  if (!value->json->is_array() || !std::ranges::all_of(*value->json, is_text))
    config.reject(*value, "a string or a list of strings");
  return value->json->get<std::vector<std::string>>();
}

std::optional<std::size_t> size_above_zero(const std::string& name, const ConfigReader& config) {
  if (config.optional_number({name}).value_or(0) < 1) return std::nullopt;
  return config.optional_size({name});
}

/// Sets attention.disentangled if /pos_att_type has terms and /relative_attention is true. In any case,
/// divides attention.scale by sqrt(1 + number of terms).
void resolve_disentangled(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                          AttentionConfig& attention) {
  const DisentangledSpec& spec = *family.disentangled;
  DisentangledConfig disentangled;
  for (const std::string& term : word_list("pos_att_type", config)) {
    if (term == "c2p") disentangled.content_to_position = true;
    if (term == "p2c") disentangled.position_to_content = true;
    if (!term.empty() && term != "c2p" && term != "p2c")
      config.reject_unsupported(*config.find("pos_att_type"), "c2p, p2c");
  }
  const int terms = (disentangled.content_to_position ? 1 : 0) + (disentangled.position_to_content ? 1 : 0);
  attention.scale /= std::sqrt(1.0 + terms);
  if (terms == 0 || !config.flag("relative_attention")) return;
  disentangled.max_distance =
      size_above_zero("max_relative_positions", config).value_or(model.max_positions.value());
  const auto buckets = spec.has_options ? size_above_zero("position_buckets", config) : std::nullopt;
  disentangled.span = buckets.value_or(disentangled.max_distance);
  disentangled.logarithmic = buckets.has_value();
  if (buckets && (*buckets < 2 || disentangled.max_distance <= *buckets / 2 + 1)) {
    config.refuse({"position_buckets"},
                  "got {}, need at least 2 and less than {}, twice the largest distance {}", *buckets,
                  2 * (disentangled.max_distance - 1), disentangled.max_distance - 1);
  }
  if (!spec.has_options || !config.flag("share_att_key")) {
    if (disentangled.content_to_position) disentangled.key = resolve_parts(spec.key, config);
    if (disentangled.position_to_content) disentangled.query = resolve_parts(spec.query, config);
  }
  if (spec.norm.present() && std::ranges::count(word_list("norm_rel_ebd", config), "layer_norm") > 0)
    disentangled.norm = with_tensors(resolve_norm(family, config), spec.norm);
  attention.disentangled = std::make_shared<const DisentangledConfig>(disentangled);
}

std::shared_ptr<const ConvolutionConfig> resolve_convolution(const ConfigReader& config,
                                                             const ModelConfig& model) {
  const auto kernel = size_above_zero("conv_kernel_size", config);
  if (!kernel) return nullptr;
  if (*kernel % 2 == 0) config.reject(*config.find("conv_kernel_size"), "an odd number");
  ConvolutionConfig convolution;
  convolution.kernel = *kernel;
  convolution.groups = size_above_zero("conv_groups", config).value_or(1);
  check_multiple(config, {"hidden_size"}, model.d_model, {"conv_groups"}, convolution.groups);
  convolution.activation = resolve_activation({{"conv_act"}, "tanh"}, config);
  return std::make_shared<const ConvolutionConfig>(convolution);
}

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

/// Returns, for each layer, whether it has a window according to the list `key` of layer types; nullopt if
/// the list is missing.
std::optional<std::vector<bool>> windows_by_type(const std::string& key, const ConfigReader& config,
                                                 std::size_t count) {
  const auto value = config.find(key);
  if (!value) return std::nullopt;
  if (!value->json->is_array() || value->json->size() != count)
    config.reject(*value, fmt::format("a list of {} strings, the type of each layer", count));
  std::vector<bool> windowed;
  for (const auto& type : *value->json) {
    if (type != "full_attention" && type != "sliding_attention")
      config.reject_unsupported({value->name, &type}, "full_attention, sliding_attention");
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

/// Returns, for each layer, whether it has a window according to the list `key` of [[type, ...], times].
/// Each [type, ...] is repeated `times` times. Returns nullopt if the list is missing.
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

/// Returns, for each layer, whether it has a window, for configurations without a list of layer types.
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

/// Returns the kind of attention of each layer. `rotary` is true for layers that use rotary positions.
std::vector<AttentionKind> resolve_windows(const WindowKeys& keys, const ConfigReader& config,
                                           const std::vector<bool>& rotary) {
  const std::size_t count = rotary.size();
  const bool enabled = config.flag(keys.enabled, keys.enabled.empty());
  std::size_t size = 0;  // of all windows; 0: no layer may have one
  if (enabled && !config.is_null({keys.size}))
    size = config.optional_size({keys.size}).value_or(keys.default_size);
  auto windowed = windows_by_type(keys.layer_types, config, count);
  if (!windowed) windowed = windows_by_runs(keys.type_runs, config, count);
  if (!windowed) windowed = size > 0 ? windows_by_rule(keys, config, rotary) : std::vector<bool>(count);
  std::vector<AttentionKind> kinds(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!(*windowed)[i]) continue;
    if (size == 0) {
      config.reject(
          *config.find({keys.layer_types, keys.type_runs}),
          fmt::format("{} only, because {}", config.find(keys.layer_types) ? "full_attention" : "global",
                      enabled ? config.pointer(keys.size) + " gives no window width"
                              : config.pointer(keys.enabled) + " is not true"));
    }
    kinds[i] = {AttentionKind::Rule::window, keys.two_sided ? size / 2 + 1 : size};
  }
  return kinds;
}

MlpConfig resolve_mlp(const FamilySpec& family, const ConfigReader& config, std::size_t d_model,
                      bool has_experts) {
  const LayerSpec& layer = family.layer;
  const MlpSpec& spec = has_experts ? layer.experts.value().each : layer.mlp;
  MlpConfig mlp;
  if (spec.up.weight.empty()) return mlp;
  const bool own_width = has_experts && !family.keys.expert_width.names.empty();
  mlp.width = config.size(own_width ? family.keys.expert_width : family.keys.mlp_width, 4 * d_model);
  mlp.activation = resolve_activation(family.keys.activation, config);
  mlp.gated = !spec.gate.weight.empty();
  mlp.bias = resolve_parts(spec.up, config).bias;
  return mlp;
}

ExpertsConfig resolve_experts(const FamilySpec& family, const ConfigReader& config) {
  const ConfigKeys& keys = family.keys;
  const ExpertsSpec& spec = family.layer.experts.value();
  ExpertsConfig experts = family.experts_config;
  experts.count = config.size(keys.experts);
  experts.per_token = config.size(keys.experts_per_token);
  if (experts.per_token > experts.count) {
    config.refuse(keys.experts_per_token.names, "got {}, need at most {}, the number of experts ({})",
                  experts.per_token, experts.count, config.pointer(keys.experts.names));
  }
  experts.router_bias = !spec.router.bias.empty();
  experts.limit = static_cast<float>(config.number(keys.expert_limit));
  experts.alpha = config.number(keys.expert_alpha);
  if (!spec.shared.up.weight.empty()) experts.shared_width = config.size(keys.shared_width);
  return experts;
}

bool is_dense_layer(const ConfigKeys& keys, const ConfigReader& config, std::size_t layer) {
  if (!keys.sparse_step.names.empty() && (layer + 1) % config.size(keys.sparse_step) != 0) return true;
  const auto listed = config.find(keys.dense_layers);
  if (!listed) return false;
  if (!listed->json->is_array()) config.reject(*listed, "a list of layer numbers");
  return std::ranges::count(*listed->json, nlohmann::ordered_json(layer)) > 0;
}

}  // namespace

AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  const ConfigKeys& keys = family.keys;
  const LayerSpec& layer = family.layer;
  AttentionConfig attention;
  attention.heads = config.size(keys.heads);
  const SizeKey& kv_heads = keys.kv_heads;
  // A null means the number of heads, even if the key has another default.
  attention.kv_heads = config.is_null(kv_heads.names)
                           ? config.optional_size(kv_heads.names).value_or(attention.heads)
                           : config.size(kv_heads, attention.heads);
  if (!kv_heads.names.empty())
    check_multiple(config, keys.heads.names, attention.heads, kv_heads.names, attention.kv_heads);
  attention.d_head = resolve_head_width(family, config, model.d_model, attention.heads);
  attention.d_value = attention.d_head;
  const double scale = config.number(keys.scale);
  attention.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(attention.d_head));
  attention.clip = static_cast<float>(config.number(keys.clip));
  attention.soft_cap = static_cast<float>(config.number(keys.soft_cap));
  attention.sinks = !layer.sinks.empty();
  attention.causal = family.causal || config.flag(keys.causal_if);
  if (family.alibi) {
    AlibiConfig alibi = *family.alibi;
    alibi.slopes = alibi_slopes(attention.heads);
    alibi.counts_visible = family.embedding_config.counts_visible;
    attention.alibi = std::make_shared<const AlibiConfig>(std::move(alibi));
  }
  if (family.rotary) {
    attention.rotary = std::make_shared<const RotaryConfig>(
        resolve_rotary(*family.rotary, config, attention.d_head, model.max_positions.value()));
  }
  if (family.relative) {
    attention.relative_buckets =
        std::make_shared<const RelativeBuckets>(resolve_relative_buckets(*family.relative, config));
  }
  if (family.disentangled) resolve_disentangled(family, config, model, attention);
  attention.query = resolve_parts(layer.query, config);
  attention.key = resolve_parts(layer.key, config);
  attention.value = resolve_parts(layer.value, config);
  attention.output = resolve_parts(layer.output, config);
  return attention;
}

std::vector<LayerConfig> resolve_layers(const FamilySpec& family, const ConfigReader& config,
                                        const NormConfig& norm, const ModelConfig& model,
                                        Component component) {
  const LayerSpec& spec = family.layer;
  const ConfigKeys& keys = family.keys;
  const std::size_t count = resolve_layer_count(family, config);
  const auto rotary =
      family.rotary ? resolve_rotary_layers(*family.rotary, config, count) : std::vector<bool>(count, true);
  const auto windows =
      family.window ? resolve_windows(*family.window, config, rotary) : std::vector<AttentionKind>(count);
  LayerConfig layer;
  layer.component = component;
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
  const std::size_t groups = keys.groups.default_value ? config.size(keys.groups) : count;
  const double group_size = static_cast<double>(count) / static_cast<double>(groups);
  std::vector<LayerConfig> layers(count, layer);
  for (std::size_t i = 0; i < count; ++i) {
    LayerConfig& added = layers[i];
    added.number = i;
    added.stored_as = static_cast<std::size_t>(static_cast<double>(i) / group_size);
    added.attention.kind = windows[i];
    added.attention_normed = i > 0 || spec.first_attention_normed;
    if (experts.count > 0 && !is_dense_layer(keys, config, i)) added.experts = experts;
    added.mlp = resolve_mlp(family, config, model.d_model, added.experts.count > 0);
    if (!rotary[i]) added.attention.rotary = nullptr;
    if (inverse_layer) added.attention.scale /= static_cast<double>(i + 1);
  }
  if (family.convolution) layers.front().convolution = resolve_convolution(config, model);
  if (!family.rotary || !family.rotary->sliding) return layers;
  const auto sliding = std::make_shared<const RotaryConfig>(
      resolve_rotary(*family.rotary, config, layer.attention.d_head, model.max_positions.value(), true));
  for (LayerConfig& added : layers) {
    if (added.attention.kind.rule == AttentionKind::Rule::window) added.attention.rotary = sliding;
  }
  return layers;
}

}  // namespace attnctl::model
