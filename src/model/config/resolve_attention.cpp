#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

std::size_t resolve_head_width(const FamilySpec& family, const ConfigReader& config, std::size_t d_model,
                               std::size_t heads) {
  const SizeKey& key = family.keys.d_head;
  if (const auto width = config.optional_size(key.names)) {
    if (*width > max_head_width) {
      fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(config.file()),
           config.pointer(config.present_name(key.names)), *width, max_head_width);
    }
    return *width;
  }
  if (key.default_value) return *key.default_value;
  check_multiple(config, config.present_name(family.keys.d_model.names), d_model,
                 config.present_name(family.keys.heads.names), heads);
  return d_model / heads;
}

/// Returns the number of key/value heads; an explicit null means the number of heads.
std::size_t resolve_kv_heads(const SizeKey& key, const ConfigReader& config, std::size_t heads) {
  if (std::ranges::any_of(key.names, [&](const auto& name) { return config.is_null(name); }))
    return config.optional_size(key.names).value_or(heads);
  return config.size(key, heads);
}

/// Returns 2^(-8 t / heads) for t = 1 to heads.
std::vector<float> power_of_two_slopes(std::size_t heads) {
  std::vector<float> slopes(heads);
  for (std::size_t t = 0; t < heads; ++t)
    slopes[t] = static_cast<float>(std::exp2(-8.0 * static_cast<double>(t + 1) / static_cast<double>(heads)));
  return slopes;
}

std::vector<float> alibi_slopes(AlibiSlopes rule, std::size_t heads) {
  std::size_t power = 1;
  while (2 * power <= heads) power *= 2;
  if (power == heads) return power_of_two_slopes(heads);
  const std::vector<float> finer = power_of_two_slopes(2 * power);
  std::vector<float> slopes;
  if (rule == AlibiSlopes::nearest_power) {
    slopes = power_of_two_slopes(power);
  } else {
    for (std::size_t t = 1; t < finer.size(); t += 2) slopes.push_back(finer[t]);
  }
  for (std::size_t t = 0; slopes.size() < heads; t += 2) slopes.push_back(finer[t]);
  return slopes;
}

[[noreturn]] void reject_bucket_size(const ConfigReader& config, const SizeKey& key, std::size_t value,
                                     const std::string& need) {
  fail(Status::bad_input, "{}: {}: got {}, need {}", escaped(config.file()),
       config.pointer(key.names.empty() ? "relative_attention_num_buckets" : key.names.front()), value, need);
}

RelativeBuckets resolve_relative_buckets(const RelativeBucketSpec& spec, const ConfigReader& config) {
  RelativeBuckets relative;
  relative.bidirectional = spec.bidirectional;
  relative.buckets = config.size(spec.buckets);
  relative.max_distance = config.size(spec.max_distance);
  relative.rows = spec.rows.names.empty() ? relative.buckets : config.size(spec.rows);
  const std::size_t fewest = spec.bidirectional ? 4 : 2;
  if (relative.buckets < fewest)
    reject_bucket_size(config, spec.buckets, relative.buckets, fmt::format("at least {}", fewest));
  const std::size_t exact = relative.buckets / fewest;  // distances with their own bucket
  if (relative.max_distance <= exact) {
    reject_bucket_size(config, spec.max_distance, relative.max_distance,
                       fmt::format("more than {}, the number of distances with their own bucket", exact));
  }
  if (relative.rows < relative.buckets)
    reject_bucket_size(config, spec.rows, relative.rows, fmt::format("at least {}", relative.buckets));
  return relative;
}

/// Reads a list of strings, or one string with "|" between the words.
std::vector<std::string> word_list(const std::string& key, const ConfigReader& config) {
  const auto value = config.find(key);
  if (!value) return {};
  std::vector<std::string> words;
  if (value->json->is_string()) {
    words.emplace_back();
    for (const char letter : value->json->get<std::string>()) {
      if (letter == '|') {
        words.emplace_back();
      } else if (letter != ' ') {
        words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      }
    }
    return words;
  }
  const auto is_text = [](const auto& word) { return word.is_string(); };
  if (!value->json->is_array() || !std::ranges::all_of(*value->json, is_text))
    config.reject(*value, "a string or a list of strings");
  return value->json->get<std::vector<std::string>>();
}

/// Reads a size; values below 1 mean that there is none.
std::optional<std::size_t> size_above_zero(const std::string& name, const ConfigReader& config) {
  if (config.optional_number({name}).value_or(0) < 1) return std::nullopt;
  return config.optional_size({name});
}

void read_terms(const ConfigReader& config, DisentangledConfig& disentangled) {
  const std::string key = "pos_att_type";
  for (const std::string& term : word_list(key, config)) {
    if (term == "c2p") {
      disentangled.content_to_position = true;
    } else if (term == "p2c") {
      disentangled.position_to_content = true;
    } else if (!term.empty()) {
      config.reject_unsupported(*config.find(key), "c2p, p2c");
    }
  }
}

void read_distances(const DisentangledSpec& spec, const ConfigReader& config, const ModelConfig& model,
                    DisentangledConfig& disentangled) {
  disentangled.max_distance =
      size_above_zero("max_relative_positions", config).value_or(model.max_positions.value());
  const auto buckets = spec.buckets ? size_above_zero("position_buckets", config) : std::nullopt;
  disentangled.span = buckets.value_or(disentangled.max_distance);
  disentangled.logarithmic = buckets.has_value();
  if (buckets && (*buckets < 2 || disentangled.max_distance <= *buckets / 2 + 1)) {
    fail(Status::bad_input, "{}: {}: got {}, need at least 2, with half of it below the largest distance {}",
         escaped(config.file()), config.pointer("position_buckets"), *buckets, disentangled.max_distance - 1);
  }
}

/// Sets attention.disentangled, and divides attention.scale by the root of the number of terms.
void resolve_disentangled(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                          AttentionConfig& attention) {
  const DisentangledSpec& spec = *family.stack.disentangled;
  DisentangledConfig disentangled;
  read_terms(config, disentangled);
  const int terms = (disentangled.content_to_position ? 1 : 0) + (disentangled.position_to_content ? 1 : 0);
  attention.scale /= std::sqrt(1.0 + terms);
  if (terms == 0 || !config.flag("relative_attention")) return;
  read_distances(spec, config, model, disentangled);
  if (!spec.may_share_content || !config.flag("share_att_key")) {
    if (disentangled.content_to_position) disentangled.key = resolve_parts(spec.key, config);
    if (disentangled.position_to_content) disentangled.query = resolve_parts(spec.query, config);
  }
  if (spec.norm.present() && std::ranges::count(word_list("norm_rel_ebd", config), "layer_norm") > 0)
    disentangled.norm = with_tensors(resolve_norm(family, config), spec.norm);
  attention.disentangled = std::make_shared<const DisentangledConfig>(disentangled);
}

}  // namespace

std::shared_ptr<const ConvolutionConfig> resolve_convolution(const ConfigReader& config,
                                                             const ModelConfig& model) {
  const auto kernel = size_above_zero("conv_kernel_size", config);
  if (!kernel) return nullptr;
  if (*kernel % 2 == 0) config.reject(*config.find("conv_kernel_size"), "an odd number");
  ConvolutionConfig convolution;
  convolution.kernel = *kernel;
  convolution.groups = size_above_zero("conv_groups", config).value_or(1);
  check_multiple(config, "hidden_size", model.d_model, "conv_groups", convolution.groups);
  const ConfigKeys keys = {.activation = {"conv_act"}, .default_activation = "tanh"};
  convolution.activation = resolve_activation(keys, config);
  return std::make_shared<const ConvolutionConfig>(convolution);
}

AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  const ConfigKeys& keys = family.keys;
  const LayerSpec& layer = family.stack.layer;
  AttentionConfig attention;
  attention.heads = config.size(keys.heads);
  attention.kv_heads = resolve_kv_heads(keys.kv_heads, config, attention.heads);
  if (!keys.kv_heads.names.empty()) {
    check_multiple(config, config.present_name(keys.heads.names), attention.heads,
                   config.present_name(keys.kv_heads.names), attention.kv_heads);
  }
  attention.d_head = resolve_head_width(family, config, model.d_model, attention.heads);
  attention.d_value = attention.d_head;
  const double scale = config.number(keys.scale);
  attention.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(attention.d_head));
  attention.clip = static_cast<float>(config.number(keys.clip));
  attention.soft_cap = static_cast<float>(config.number(keys.soft_cap));
  attention.sinks = !layer.sinks.empty();
  attention.causal = family.causal || config.flag(keys.causal_if);
  if (family.alibi != AlibiSlopes::none) {
    attention.alibi = std::make_shared<const AlibiConfig>(
        AlibiConfig{alibi_slopes(family.alibi, attention.heads), family.counts_visible,
                    family.alibi_from_last, family.alibi_rounded});
  }
  if (family.rotary) {
    attention.rotary = std::make_shared<const RotaryConfig>(
        resolve_rotary(*family.rotary, config, attention.d_head, model.max_positions.value()));
  }
  if (family.stack.relative) {
    attention.relative_buckets =
        std::make_shared<const RelativeBuckets>(resolve_relative_buckets(*family.stack.relative, config));
  }
  if (family.stack.disentangled) resolve_disentangled(family, config, model, attention);
  attention.query = resolve_parts(layer.query, config);
  attention.key = resolve_parts(layer.key, config);
  attention.value = resolve_parts(layer.value, config);
  attention.output = resolve_parts(layer.output, config);
  return attention;
}

}  // namespace attnctl
