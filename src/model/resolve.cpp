#include "model/resolve.hpp"

#include "attnctl/base/error.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "model/rotary.hpp"
#include "model/same_values.hpp"
#include "model/tensor_names.hpp"

namespace attnctl {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
// gelu_fast and its relatives are algebraically the tanh form.
constexpr NamedActivation activations[] = {{"gelu", Activation::gelu_erf},
                                           {"gelu_python", Activation::gelu_erf},
                                           {"gelu_new", Activation::gelu_tanh},
                                           {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                           {"gelu_fast", Activation::gelu_tanh},
                                           {"gelu_python_tanh", Activation::gelu_tanh},
                                           {"gelu_accurate", Activation::gelu_tanh},
                                           {"silu", Activation::silu},
                                           {"swish", Activation::silu},
                                           {"relu", Activation::relu},
                                           {"tanh", Activation::tanh}};

Activation activation_named(const std::string& name, const ConfigKeys& keys, const ConfigReader& config) {
  std::string known;
  for (const NamedActivation& row : activations) {
    if (row.name == name) return row.activation;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  config.refuse_unsupported(*config.find(keys.activation), known);
}

Activation resolve_activation(const ConfigKeys& keys, const ConfigReader& config) {
  return activation_named(config.text(keys.activation).value_or(keys.activation_otherwise), keys, config);
}

void check_requirements(const FamilySpec& family, const ConfigReader& config) {
  for (const Requirement& requirement : family.requirements) {
    const auto value = config.find(requirement.key);
    if (!value || std::ranges::find(requirement.values, *value->json) != requirement.values.end()) continue;
    std::string supported;
    for (const auto& one : requirement.values) {
      supported += fmt::format("{}{}", supported.empty() ? "" : ", ", one.dump());
    }
    config.refuse_unsupported(*value, supported);
  }
  if (const auto pruned = config.find("pruned_heads"); pruned && !pruned->json->empty()) {
    config.refuse_unsupported(*pruned, "{}");
  }
  if (const auto packed = config.find("quantization_config")) config.refuse_unsupported(*packed, "null");
}

bool resolve_presence(std::span<const StoredTensor> names, const Presence& presence,
                      const ConfigReader& config) {
  if (names.empty() || presence.rule == Presence::Rule::stored) return false;
  if (presence.rule != Presence::Rule::configured) return true;  // widths are compared where both are known
  return config.flag(presence.key).value_or(presence.otherwise);
}

LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config) {
  return {resolve_presence(spec.weight, spec.weight_presence, config),
          resolve_presence(spec.bias, spec.bias_presence, config)};
}

std::size_t resolve_head_width(const FamilySpec& family, const ConfigReader& config, std::size_t d_model,
                               std::size_t heads) {
  if (const auto width = config.size(std::span(family.keys.d_head.names))) {
    if (*width > widest_head) {
      fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(config.file()),
           config.pointer(config.find(family.keys.d_head.names)->name), *width, widest_head);
    }
    return *width;
  }
  if (family.keys.d_head.otherwise) return *family.keys.d_head.otherwise;
  check_multiple(config, config.find(family.keys.d_model.names)->name, d_model,
                 config.find(family.keys.heads.names)->name, heads);
  return d_model / heads;
}

/// A null says: as many as heads.
std::size_t resolve_kv_heads(const SizeKey& key, const ConfigReader& config, std::size_t heads) {
  if (const auto said = config.size(std::span(key.names))) return *said;
  const bool null = std::ranges::any_of(key.names, [&](const auto& name) { return config.is_null(name); });
  return null ? heads : key.otherwise.value_or(heads);
}

AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  AttentionConfig attention;
  attention.heads = config.size(family.keys.heads);
  attention.kv_heads = resolve_kv_heads(family.keys.kv_heads, config, attention.heads);
  if (attention.heads % attention.kv_heads != 0) {
    check_multiple(config, config.find(family.keys.heads.names)->name, attention.heads,
                   config.find(family.keys.kv_heads.names)->name, attention.kv_heads);
  }
  attention.d_head = resolve_head_width(family, config, model.d_model, attention.heads);
  attention.d_value = attention.d_head;
  const bool scaled =
      family.keys.unscaled_unless.empty() || config.flag(family.keys.unscaled_unless).value_or(true);
  attention.scale = scaled ? 1 / std::sqrt(static_cast<double>(attention.d_head)) : 1;
  attention.causal =
      family.causal || (!family.keys.causal_if.empty() && config.flag(family.keys.causal_if).value_or(false));
  if (family.rotary) {
    attention.rotary = std::make_shared<const RotaryConfig>(
        resolve_rotary(*family.rotary, config, attention.d_head, model.max_positions.value()));
  }
  const LayerSpec& layer = family.stack.layer;
  attention.query = resolve_parts(layer.query, config);
  attention.key = resolve_parts(layer.key, config);
  attention.value = resolve_parts(layer.value, config);
  attention.output = resolve_parts(layer.output, config);
  return attention;
}

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

std::size_t resolve_padding(const SizeKey& key, const ConfigReader& config) {
  return config.index(std::span(key.names)).value_or(key.otherwise.value_or(0));
}

/// Rows of the position table that are positions, all but those up to the padding's.
std::size_t resolve_max_positions(const ConfigKeys& keys, const ConfigReader& config) {
  const std::size_t rows = config.size(keys.max_positions);
  if (keys.padding.names.empty()) return rows;
  const std::size_t padding = resolve_padding(keys.padding, config);
  if (rows > padding + 1) return rows - padding - 1;
  fail(Status::bad_input, "{}: {}: got {}, need more than {}, where positions begin past {} ({})",
       escaped(config.file()), config.pointer(keys.max_positions.names.front()), rows, padding + 1,
       config.pointer(keys.padding.names.front()), padding);
}

EmbeddingConfig resolve_embedding(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  const ConfigKeys& keys = family.keys;
  EmbeddingConfig embedding;
  embedding.vocabulary = config.size(keys.vocabulary);
  embedding.width =
      config.size(std::span(keys.embedding.names)).value_or(keys.embedding.otherwise.value_or(model.d_model));
  embedding.position = family.position;
  if (!family.embedding.token_type.empty()) embedding.token_types = config.size(keys.token_types);
  if (!family.embedding.norm.gain.empty()) embedding.norm = model.layers.at(0).norm;
  embedding.projection = resolve_parts(family.embedding.projection, config);
  if (family.embedding.projection.weight_presence.rule == Presence::Rule::width_differs &&
      embedding.width == model.d_model) {
    embedding.projection = {};
  }
  if (!keys.padding.names.empty()) {
    embedding.padding = resolve_padding(keys.padding, config);
    embedding.position_offset = *embedding.padding + 1;
  }
  return embedding;
}

/// A decoder that is stored, but as a copy of the token embedding: some tools write tied weights twice.
bool is_copy_of_embedding(const FamilySpec& family, const TensorNames& names, const LocatedTensor& decoder,
                          Checkpoint& weights) {
  const auto token = names.find_outside_layers(stored(family.embedding.token));
  return token && same_values(weights, decoder.index, token->index);
}

/// What the file has of the head; without a file, what a model of the family has when it was trained.
HeadConfig resolve_head(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                        Checkpoint* weights) {
  HeadConfig head;
  if (!family.head) return head;
  const HeadSpec& spec = *family.head;
  const bool transform = !spec.transform.weight.empty();
  head.present = true;
  const auto tie = config.flag("tie_word_embeddings");
  head.tied = tie.value_or(spec.tied_otherwise);
  if (weights != nullptr) {
    const TensorNames names(family, *weights, model.layers.size());
    const auto decoder = names.find_absolute(spec.decoder.weight);
    head.tied = !decoder || is_copy_of_embedding(family, names, *decoder, *weights);
    const auto stored_part = [&](const LinearSpec& part) {
      return names.find_absolute(part.weight) || names.find_absolute(part.bias);
    };
    // A model of which only the body was saved, with a head of its own, has lost it.
    const bool lost = !decoder && names.headless() && tie == false;
    head.present = transform ? stored_part(spec.transform) || stored_part(spec.decoder) : !lost;
  }
  if (!head.present) return {};
  head.bias = !spec.decoder.bias.empty();
  head.transform = transform;
  if (transform) {
    head.activation = spec.activation.empty() ? model.layers.at(0).mlp.activation
                                              : activation_named(spec.activation, family.keys, config);
    head.norm = model.layers.at(0).norm;
  }
  return head;
}

ModelConfig resolve_from_config(const FamilySpec& family, const ConfigReader& config,
                                const ModelSource& source) {
  ModelConfig model;
  model.d_model = config.size(family.keys.d_model);
  model.max_positions = resolve_max_positions(family.keys, config);
  const NormConfig norm = resolve_norm(family, config);
  resolve_layers(family, config, norm, model);
  model.embedding = resolve_embedding(family, config, model);
  if (!family.final_norm.gain.empty()) model.final_norm = norm;
  model.d_key_input = model.d_value_input = model.d_output = model.d_model;
  model.head = resolve_head(family, config, model, source.weights.get());
  return model;
}

}  // namespace

std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config) {
  const std::size_t count = config.size(family.keys.layers);
  if (count > most_layers) {
    fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(config.file()),
         config.pointer(config.find(family.keys.layers.names)->name), count, most_layers);
  }
  return count;
}

void check_multiple(const ConfigReader& config, const std::string& whole_name, std::size_t whole,
                    const std::string& part_name, std::size_t part) {
  if (whole % part == 0) return;
  fail(Status::bad_input, "{}: {}: got {}, need a multiple of {} ({})", escaped(config.file()),
       config.pointer(whole_name), whole, config.pointer(part_name), part);
}

ModelConfig resolve_config(const ModelSource& source) {
  const std::string file = source.config_path.string();
  const FamilySpec& family = family_of(file, source.config);
  const ConfigReader config(file, source.config);
  check_requirements(family, config);
  if (family.sizes == SizesFrom::tensors && !source.weights) {
    fail(Status::bad_input, "{}: a model of the type {} has its sizes in its weights; need a weights file",
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
