#include "model/config/resolve.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "model/binding/tensor_names.hpp"

namespace attnctl {
namespace {

struct ActivationName {
  std::string_view name;
  Activation activation;
};
// gelu_fast and similar names are algebraically the tanh form.
constexpr ActivationName kActivationNames[] = {{"gelu", Activation::gelu_erf},
                                               {"gelu_python", Activation::gelu_erf},
                                               {"gelu_new", Activation::gelu_tanh},
                                               {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                               {"gelu_fast", Activation::gelu_tanh},
                                               {"gelu_python_tanh", Activation::gelu_tanh},
                                               {"gelu_accurate", Activation::gelu_tanh},
                                               {"silu", Activation::silu},
                                               {"swish", Activation::silu},
                                               {"relu", Activation::relu},
                                               {"relu2", Activation::relu_squared},
                                               {"tanh", Activation::tanh}};

void check_requirements(const FamilySpec& family, const ConfigReader& config) {
  for (const Requirement& requirement : family.requirements) {
    const auto value = config.find(requirement.key);
    if (!value || std::ranges::count(requirement.values, *value->json) > 0) continue;
    std::vector<std::string> supported;
    for (const auto& one : requirement.values) supported.push_back(one.dump());
    config.reject_unsupported(*value, fmt::format("{}", fmt::join(supported, ", ")));
  }
  if (const auto pruned = config.find("pruned_heads"); pruned && !pruned->json->empty())
    config.reject_unsupported(*pruned, "{}");
  if (const auto packed = config.find("quantization_config")) config.reject_unsupported(*packed, "null");
}

/// Reports all faults in independent parts of a configuration in one error: options, norm, activation, and
/// attention with its positions.
void check_parts(const FamilySpec& family, const ConfigReader& config) {
  std::vector<std::string> faults;
  const auto check = [&](const auto& part) {
    try {
      part();
    } catch (const Error& error) {
      if (error.status() != Status::bad_input) throw;
      if (std::ranges::find(faults, error.what()) == faults.end()) faults.emplace_back(error.what());
    }
  };
  check([&] { check_requirements(family, config); });
  if (family.sizes == SizesFrom::config) {
    check([&] { (void)resolve_norm(family, config); });
    check([&] { (void)resolve_activation(family.keys, config); });
    check([&] {
      ModelConfig model;
      model.d_model = config.size(family.keys.d_model);
      model.max_positions = resolve_max_positions(family.keys, config);
      (void)resolve_attention(family, config, model);
    });
  }
  if (!faults.empty()) fail(Status::bad_input, "{}", fmt::join(faults, "; "));
}

/// Replaces computed inverse frequencies by those that the checkpoint holds.
void use_stored_frequencies(const FamilySpec& family, Checkpoint& weights, ModelConfig& model) {
  if (!family.rotary || family.rotary->stored.empty()) return;
  const TensorNames names(family, weights, model.layers.size());
  const auto found = names.find_outside_layers(stored(family.rotary->stored));
  if (!found) return;
  const TensorInfo& info = names.info(*found);
  RotaryConfig rotary = *model.layers.front().attention.rotary;
  const Shape need = {rotary.dims / 2};
  if (info.shape != need || !is_floating(info.dtype)) {
    fail(Status::bad_input, "{}: tensor \"{}\": got {} of shape {}, need rotary frequencies of shape {}",
         info.file, escaped(info.name), name_of(info.dtype), to_string(info.shape), to_string(need));
  }
  const TensorView view = weights.tensor(found->index);
  convert(view.dtype, view.bytes, std::span(rotary.inverse_frequency));
  const auto shared = std::make_shared<const RotaryConfig>(std::move(rotary));
  for (LayerConfig& layer : model.layers) layer.attention.rotary = shared;
}

/// Returns the ids that the configuration gives for bos, eos, pad, cls and sep, if below `vocabulary`.
std::vector<std::int64_t> resolve_special_ids(const ConfigReader& config, std::size_t vocabulary) {
  std::vector<std::int64_t> ids;
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id"}) {
    const auto value = config.find(name);
    if (!value) continue;
    const auto listed =
        value->json->is_array() ? *value->json : nlohmann::ordered_json::array({*value->json});
    for (const auto& id : listed) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0) continue;
      if (std::cmp_less(id.get<std::int64_t>(), vocabulary)) ids.push_back(id.get<std::int64_t>());
    }
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

ModelConfig resolve_from_config(const FamilySpec& family, const ConfigReader& config,
                                const ModelSource& source) {
  ModelConfig model;
  model.d_model = config.size(family.keys.d_model);
  model.max_positions = resolve_max_positions(family.keys, config);
  const NormConfig norm = resolve_norm(family, config);
  resolve_layers(family, config, norm, model);
  if (source.weights) use_stored_frequencies(family, *source.weights, model);
  model.embedding = resolve_embedding(family, config, model);
  model.final_norm = with_tensors(norm, family.final_norm);
  if (family.decoder) resolve_decoder(family, config, norm, source, model);
  model.d_key_input = model.d_value_input = model.d_output = model.d_model;
  model.head = resolve_head(family, config, model, source.weights.get());
  return model;
}

}  // namespace

std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config) {
  const std::size_t count = config.size(family.keys.layers);
  if (count > max_layers) {
    fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(config.file()),
         config.pointer(config.present_name(family.keys.layers.names)), count, max_layers);
  }
  return count;
}

void check_multiple(const ConfigReader& config, const std::string& whole_name, std::size_t whole,
                    const std::string& part_name, std::size_t part) {
  if (whole % part == 0) return;
  fail(Status::bad_input, "{}: {}: got {}, need a multiple of {} ({})", escaped(config.file()),
       config.pointer(whole_name), whole, config.pointer(part_name), part);
}

Activation activation_named(const std::string& name, const ConfigKeys& keys, const ConfigReader& config) {
  std::vector<std::string_view> known;
  for (const ActivationName& row : kActivationNames) {
    if (row.name == name) return row.activation;
    known.push_back(row.name);
  }
  config.reject_unsupported(*config.find(keys.activation), fmt::format("{}", fmt::join(known, ", ")));
}

Activation resolve_activation(const ConfigKeys& keys, const ConfigReader& config) {
  return activation_named(config.optional_text(keys.activation).value_or(keys.default_activation), keys,
                          config);
}

NormConfig resolve_norm(const FamilySpec& family, const ConfigReader& config) {
  NormConfig norm;
  norm.kind = family.norm;
  norm.eps = static_cast<float>(
      config.optional_positive(family.keys.norm_eps).value_or(family.keys.default_norm_eps));
  if (!(norm.eps > 0) || !std::isfinite(norm.eps))
    config.reject(*config.find(family.keys.norm_eps), "a number that is above 0 in float32");
  return norm;
}

NormConfig with_tensors(NormConfig norm, const NormSpec& spec) {
  if (!spec.present()) return {};
  norm.gain = !spec.gain.empty();
  norm.bias = !spec.bias.empty();
  return norm;
}

LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config) {
  const auto present = [&](const std::vector<StoredTensor>& names, const Presence& presence) {
    if (names.empty() || presence.rule == Presence::Rule::stored) return false;
    return presence.rule != Presence::Rule::configured || config.flag(presence.key, presence.default_value);
  };
  return {present(spec.weight, spec.weight_presence), present(spec.bias, spec.bias_presence)};
}

ModelConfig resolve_config(const ModelSource& source) {
  return resolve_config(family_of(source.config_path.string(), source.config), source);
}

ModelConfig resolve_config(const FamilySpec& family, const ModelSource& source) {
  const std::string file = source.config_path.string();
  const ConfigReader config = ConfigReader::of_text(file, source.config);
  check_parts(family, config);
  if (family.sizes == SizesFrom::tensors && !source.weights) {
    fail(Status::bad_input, "{}: model type {} takes its sizes from its weights; need a weights file",
         escaped(file), family.name);
  }
  ModelConfig model = family.sizes == SizesFrom::tensors
                          ? resolve_from_tensors(family, config, *source.weights)
                          : resolve_from_config(family, config, source);
  model.family = family.name;
  model.special_ids = resolve_special_ids(config, model.embedding.vocabulary);
  return model;
}

}  // namespace attnctl
