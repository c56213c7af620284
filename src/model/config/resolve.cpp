#include "model/config/resolve.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "checkpoint/readers.hpp"
#include "model/binding/binding.hpp"

namespace attnctl::model {
namespace {

std::string excerpt(const nlohmann::ordered_json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return escaped(text);
}

/// Reads height and width: a list [height, width], or one number for both. Returns the default for both if
/// the key is missing.
std::pair<std::size_t, std::size_t> resolve_extents(const SizeKey& key, const ConfigReader& config) {
  const auto value = config.find(key.names);
  if (!value || !value->json->is_array()) {
    const std::size_t size = config.size(key);
    return {size, size};
  }
  if (value->json->size() != 2) config.reject(*value, "an integer of at least 1, or a list [height, width]");
  const auto one = [&](std::size_t i) {
    const nlohmann::ordered_json wrapped = {{value->name, value->json->at(i)}};
    return ConfigReader(config.file(), wrapped, config.object_pointer()).size(key);
  };
  return {one(0), one(1)};
}

PatchGrid resolve_pixels(const ConfigKeys& keys, const ConfigReader& config) {
  PatchGrid grid;
  if (keys.channels.names.empty()) return grid;
  grid.channels = config.size(keys.channels);
  std::tie(grid.height, grid.width) = resolve_extents(keys.image, config);
  std::tie(grid.patch_height, grid.patch_width) = resolve_extents(keys.patch, config);
  if (grid.patch_height > grid.height || grid.patch_width > grid.width) {
    config.refuse(keys.image.names, "got {} by {}, need at least {} by {}, the size of a patch ({})",
                  grid.height, grid.width, grid.patch_height, grid.patch_width,
                  config.pointer(keys.patch.names));
  }
  const auto values = checked_product(Shape{grid.channels, grid.height, grid.width});
  if (!values || *values > ConfigReader::kLargestSize) {
    fail(Status::limit, "{}: {}: got {} channels of {} by {}, the limit is {} values", escaped(config.file()),
         config.pointer(keys.image.names), grid.channels, grid.height, grid.width,
         ConfigReader::kLargestSize);
  }
  return grid;
}

/// Returns the id of the padding token if the positions of the family start at row id + 1 of the position
/// table; otherwise nullopt.
std::optional<std::size_t> resolve_padding(const SizeKey& key, const ConfigReader& config) {
  if (key.names.empty() && !key.default_value) return std::nullopt;
  return config.optional_index(key.names).value_or(key.default_value.value_or(0));
}

std::optional<TokenDropout> resolve_token_dropout(TokenDropout dropout, const ConfigReader& config) {
  if (!config.flag("token_dropout")) return std::nullopt;
  const auto token = config.optional_index({"mask_token_id"});
  if (!token) config.refuse({"mask_token_id"}, "missing, need a token id, because /token_dropout is true");
  dropout.token = static_cast<std::int64_t>(*token);
  return dropout;
}

/// Returns a family with only the decoder of `family`. Each layer has only one attention: the self-attention
/// if `self` is true, otherwise the cross-attention.
FamilySpec decoder_part(const FamilySpec& family, const ConfigReader& config, bool self) {
  const DecoderSpec& decoder = *family.decoder;
  FamilySpec part = family;
  part.layer = self ? decoder.self : decoder.cross;
  part.relative = self ? decoder.relative : std::nullopt;
  part.causal = self;
  part.embedding = decoder.embedding;
  part.keys.layers = decoder.layers;
  part.keys.heads = decoder.heads;
  part.keys.mlp_width = decoder.mlp_width;
  if (!config.flag(decoder.shared_vocabulary, true) && config.find(decoder.vocabulary.names))
    part.keys.vocabulary = decoder.vocabulary;
  return part;
}

/// If a position table is stored, uses it instead of computed positions of the kind sinusoidal_halves,
/// because the model was trained with the table.
void prefer_stored_positions(const EmbeddingSpec& spec, const TensorNames& names,
                             EmbeddingConfig& embedding) {
  if (embedding.position == PositionKind::sinusoidal_halves &&
      names.find(spec.position, names.outside_layers()))
    embedding.position = PositionKind::learned;
}

/// Sets the properties of the head that depend on the stored tensors: present, tied and bias.
void inspect_stored_head(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                         checkpoint::Checkpoint& weights, HeadConfig& head) {
  const HeadSpec& spec = *family.head;
  const TensorNames names(family, weights, model.layers.size());
  const auto decoder = names.find(spec.decoder.weight, "");
  const EmbeddingSpec& embedding = family.decoder ? family.decoder->embedding : family.embedding;
  const auto token = names.find(embedding.token, names.outside_layers());
  // Some programs store a tied output matrix a second time.
  head.tied = !decoder || (token && same_values(weights, decoder->index, token->index));
  if (spec.bias_if_stored) head.bias = names.find(spec.decoder.bias, "").has_value();
  const auto is_stored = [&](const LinearSpec& part) {
    return names.find(part.weight, "") || names.find(part.bias, "");
  };
  // Tensor names without the first prefix of the family show that the model was saved without its head. Such
  // a model has a head only if the output matrix is stored or, by the configuration, is the embedding.
  const bool lost = !decoder && names.outside_layers() != family.prefixes.front() &&
                    !config.flag("tie_word_embeddings", true);
  head.present = head.transform ? is_stored(spec.transform) || is_stored(spec.decoder) : !lost;
}

/// Returns the largest number of tokens of a sequence. For images, this is one per patch, plus the class
/// token. Otherwise, it is the configured number, less the rows up to that of the padding token if positions
/// start after that row. Returns nullopt if the family has no limit.
std::optional<std::size_t> resolve_max_positions(const ConfigKeys& keys, const ConfigReader& config) {
  if (const PatchGrid grid = resolve_pixels(keys, config); grid.present()) return grid.patches() + 1;
  if (keys.max_positions.names.empty() && !keys.max_positions.default_value) return std::nullopt;
  const std::size_t rows = config.size(keys.max_positions);
  const auto padding = resolve_padding(keys.padding, config);
  if (!padding) return rows;
  if (rows > *padding + 1) return rows - *padding - 1;
  const std::string origin = keys.padding.names.empty()
                                 ? fmt::format("{}", *padding)
                                 : fmt::format("{} ({})", config.pointer(keys.padding.names), *padding);
  config.refuse(keys.max_positions.names, "got {}, need more than {}, because positions start after row {}",
                rows, *padding + 1, origin);
}

EmbeddingConfig resolve_embedding(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  const ConfigKeys& keys = family.keys;
  EmbeddingConfig embedding = family.embedding_config;
  embedding.pixels = resolve_pixels(keys, config);
  if (!embedding.pixels.present()) embedding.vocabulary = config.size(keys.vocabulary);
  embedding.width = config.size(keys.embedding, model.d_model);
  embedding.token_types =
      config.optional_index(keys.token_types.names).value_or(keys.token_types.default_value.value_or(0));
  embedding.norm = with_tensors(model.layers.at(0).norm, family.embedding.norm);
  if (embedding.dropout) embedding.dropout = resolve_token_dropout(*embedding.dropout, config);
  const double root = family.scale_embedding ? std::sqrt(static_cast<double>(model.d_model)) : 1;
  embedding.multiplier = root * config.number(keys.embedding_multiplier);
  embedding.projection = resolve_parts(family.embedding.projection, config, embedding.width == model.d_model);
  embedding.padding = resolve_padding(keys.padding, config);
  if (embedding.padding) embedding.position_offset = *embedding.padding + 1;
  return embedding;
}

/// Adds the decoder of an encoder-decoder model: its layers, model.decoder and the final norm. d_model,
/// max_positions, embedding and the layers of the encoder must be set.
void resolve_decoder(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                     const checkpoint::ModelSource& source, ModelConfig& model) {
  const FamilySpec self = decoder_part(family, config, true);
  const FamilySpec cross = decoder_part(family, config, false);
  const auto self_layers = resolve_layers(self, config, norm, model, Component::decoder);
  const auto cross_layers = resolve_layers(cross, config, norm, model, Component::cross);
  DecoderConfig decoder;
  decoder.embedding = resolve_embedding(cross, config, model);
  decoder.encoder_norm = with_tensors(norm, family.final_norm);
  decoder.start_token = config.optional_index({"decoder_start_token_id"});
  decoder.shares_tokens = cross.keys.vocabulary.names == family.keys.vocabulary.names;
  if (source.weights) {
    const TensorNames names(family, *source.weights, model.layers.size());
    prefer_stored_positions(family.embedding, names, model.embedding);
    prefer_stored_positions(family.decoder->embedding, names, decoder.embedding);
    decoder.shares_tokens = names.find(family.embedding.token, names.outside_layers()) ==
                            names.find(family.decoder->embedding.token, names.outside_layers());
  }
  for (std::size_t i = 0; i < self_layers.size(); ++i) {
    model.layers.push_back(self_layers[i]);
    model.layers.push_back(cross_layers[i]);
  }
  model.decoder = decoder;
  model.final_norm = with_tensors(norm, family.decoder->final_norm);
}

/// Returns the head. If `weights` is null, assumes that the usual head of the family is stored.
HeadConfig resolve_head(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                        checkpoint::Checkpoint* weights) {
  HeadConfig head;
  if (!family.head) return head;
  const HeadSpec& spec = *family.head;
  head.present = true;
  head.transform = !spec.transform.weight.empty();
  head.tied = config.flag("tie_word_embeddings", spec.tied_by_default);
  head.bias = !spec.bias_if_stored && resolve_parts(spec.decoder, config).bias;
  if (weights != nullptr) inspect_stored_head(family, config, model, *weights, head);
  if (!head.present) return {};
  if (head.transform) {
    head.transform_bias = resolve_parts(spec.transform, config).bias;
    head.activation = spec.activation.default_value.empty() ? model.layers.at(0).mlp.activation
                                                            : resolve_activation(spec.activation, config);
    head.norm = with_tensors(model.layers.at(0).norm, spec.transform_norm);
  }
  head.projection = resolve_parts(spec.projection, config, model.embedding.width == model.d_model);
  head.multiplier = static_cast<float>(config.number(family.keys.logit_multiplier));
  head.soft_cap = static_cast<float>(config.number(family.keys.logit_soft_cap));
  return head;
}

/// Throws Error(bad_input) if the weights are quantised in a way that checkpoint::combine_scales() does not
/// know.
void check_quantization(const ConfigReader& config) {
  const auto packed = config.find("quantization_config");
  if (!packed) return;
  const nlohmann::ordered_json& settings = *packed->json;
  const auto text = [&](const char* key) {
    const auto found = settings.is_object() ? settings.find(key) : settings.end();
    return settings.is_object() && found != settings.end() && found->is_string() ? found->get<std::string>()
                                                                                 : std::string();
  };
  const std::string method = text("quant_method");
  const bool floats = method == "compressed-tensors" && text("format") == "float-quantized";
  if (method == "mxfp4" || method == "fp8" || floats) return;
  config.reject_unsupported(
      *packed, "quant_method mxfp4, fp8, and compressed-tensors with the format float-quantized");
}

void check_requirements(const FamilySpec& family, const ConfigReader& config) {
  for (const Requirement& requirement : family.requirements) {
    const auto value = config.find(requirement.key);
    if (!value || std::ranges::count(requirement.values, *value->json) > 0) continue;
    const auto text = [](const nlohmann::ordered_json& supported) { return supported.dump(); };
    config.reject_unsupported(*value, join_texts(requirement.values, text));
  }
  if (const auto pruned = config.find("pruned_heads"); pruned && !pruned->json->empty())
    config.reject_unsupported(*pruned, "{}");
  check_quantization(config);
}

/// Checks the requirements of the family. If the sizes come from the configuration, also checks norm,
/// activation and attention. Throws one Error(bad_input) with the first fault of each of these parts.
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
  if (!family.sizes_from_tensors) {
    check([&] { (void)resolve_norm(family, config); });
    check([&] { (void)resolve_activation(family.keys.activation, config); });
    check([&] {
      ModelConfig model;
      model.d_model = config.size(family.keys.d_model);
      model.max_positions = resolve_max_positions(family.keys, config);
      (void)resolve_attention(family, config, model);
    });
  }
  if (!faults.empty()) fail(Status::bad_input, "{}", fmt::join(faults, "; "));
}

void use_stored_frequencies(const FamilySpec& family, checkpoint::Checkpoint& weights, ModelConfig& model) {
  if (!family.rotary || family.rotary->stored.empty()) return;
  const TensorNames names(family, weights, model.layers.size());
  const auto found = names.find(family.rotary->stored, names.outside_layers());
  if (!found) return;
  const checkpoint::TensorInfo& info = names.info(*found);
  RotaryConfig rotary = *model.layers.front().attention.rotary;
  const Shape need = {rotary.dims / 2};
  if (info.shape != need || !is_floating(info.dtype)) {
    checkpoint::refuse_tensor(info.file, info.name,
                              "got {} of shape {}, need floating-point rotary frequencies of shape {}",
                              name_of(info.dtype), to_string(info.shape), to_string(need));
  }
  const checkpoint::TensorView view = weights.tensor(found->index);
  convert(view.dtype, view.bytes, std::span(rotary.inverse_frequency));
  const auto shared = std::make_shared<const RotaryConfig>(std::move(rotary));
  for (LayerConfig& layer : model.layers) layer.attention.rotary = shared;
}

std::vector<std::int64_t> resolve_special_ids(const ConfigReader& config, std::size_t vocabulary) {
  std::set<std::int64_t> ids;
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id"}) {
    const auto value = config.find(name);
    if (!value) continue;
    for (const auto& id :
         value->json->is_array() ? *value->json : nlohmann::ordered_json::array({*value->json})) {
      if (!id.is_number_integer()) continue;
      const auto number = id.get<std::int64_t>();
      if (number >= 0 && std::cmp_less(number, vocabulary)) ids.insert(number);
    }
  }
  return {ids.begin(), ids.end()};
}

ModelConfig resolve_from_config(const FamilySpec& family, const ConfigReader& config,
                                const checkpoint::ModelSource& source) {
  ModelConfig model;
  model.d_model = config.size(family.keys.d_model);
  model.max_positions = resolve_max_positions(family.keys, config);
  const NormConfig norm = resolve_norm(family, config);
  model.layers =
      resolve_layers(family, config, norm, model, family.decoder ? Component::encoder : Component::none);
  if (source.weights) use_stored_frequencies(family, *source.weights, model);
  model.embedding = resolve_embedding(family, config, model);
  model.final_norm = with_tensors(norm, family.final_norm);
  if (family.decoder) resolve_decoder(family, config, norm, source, model);
  model.d_key_input = model.d_value_input = model.d_output = model.d_model;
  model.head = resolve_head(family, config, model, source.weights.get());
  return model;
}

}  // namespace

ConfigReader ConfigReader::of_text(const std::string& file, const nlohmann::ordered_json& config) {
  ConfigReader whole(file, config);
  const auto text = whole.optional_object("text_config");
  if (!text) return whole;
  check_quantization(whole);
  return *text;
}

std::optional<ConfigValue> ConfigReader::find(const Names& names) const {
  for (const std::string& name : names) {
    if (auto found = find(name)) return found;
  }
  return std::nullopt;
}

std::optional<ConfigValue> ConfigReader::find(const std::string& name) const {
  const nlohmann::ordered_json::json_pointer path("/" + name);
  if (name.empty() || !object_->contains(path) || object_->at(path).is_null()) return std::nullopt;
  return ConfigValue{name, &object_->at(path)};
}

bool ConfigReader::is_null(const Names& names) const {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const auto found = object_->find(name);
    return found != object_->end() && found->is_null();
  });
}

std::string ConfigReader::pointer(const Names& names) const {
  const auto found = find(names);
  return pointer(found ? found->name : names.front());
}

std::optional<std::size_t> ConfigReader::optional_index(const Names& names, std::int64_t least) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  // In a document that was built in memory, positive integers may have a signed type.
  if (value->json->is_number_unsigned() || (value->json->is_number_integer() && *value->json > 0))
    check_limit(names, value->json->get<std::uint64_t>(), kLargestSize);
  if (!value->json->is_number_integer() || value->json->get<std::int64_t>() < least)
    reject(*value, fmt::format("an integer of at least {}", least));
  return value->json->get<std::size_t>();
}

std::size_t ConfigReader::size(const SizeKey& key, std::optional<std::size_t> default_value) const {
  for (const auto& value : {optional_size(key.names), key.default_value, default_value}) {
    if (value) return *value;
  }
  refuse(key.names, "missing, need an integer of at least 1");
}

std::optional<double> ConfigReader::optional_number(const Names& names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (!value->json->is_number()) reject(*value, "a number");
  const auto number = value->json->get<double>();
  if (!std::isfinite(number)) reject(*value, "a finite number");
  return number;
}

std::optional<double> ConfigReader::optional_positive(const Names& names) const {
  const auto value = optional_number(names);
  if (value && *value <= 0) reject(*find(names), "a number above 0");
  return value;
}

double ConfigReader::number(const NumberKey& key) const {
  if (!find(key.names)) return key.null_is_zero && is_null(key.names) ? 0 : key.default_value;
  if (key.conversion == NumberKey::Conversion::plain) return optional_number(key.names).value();
  const double number = optional_positive(key.names).value();
  return key.conversion == NumberKey::Conversion::inverse ? 1 / number : 1 / std::sqrt(number);
}

bool ConfigReader::flag(const std::string& name, bool default_value) const {
  const auto value = find(name);
  if (!value) return default_value;
  if (!value->json->is_boolean()) reject(*value, "true or false");
  return value->json->get<bool>();
}

std::optional<std::string> ConfigReader::optional_text(const Names& names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (!value->json->is_string()) reject(*value, "a string");
  return value->json->get<std::string>();
}

std::optional<ConfigReader> ConfigReader::optional_object(const std::string& name) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  if (!value->json->is_object()) reject(*value, "an object");
  return ConfigReader(file_, *value->json, pointer(name));
}

void ConfigReader::reject(const ConfigValue& value, std::string_view need) const {
  attnctl::refuse(escaped(file_), "{}: got {}, need {}", escaped(pointer(value.name)), excerpt(*value.json),
                  need);
}

void ConfigReader::reject_unsupported(const ConfigValue& value, std::string_view supported) const {
  attnctl::refuse(escaped(file_), "{}: unsupported {}; supported: {}", escaped(pointer(value.name)),
                  excerpt(*value.json), supported);
}

void ConfigReader::check_limit(const Names& names, std::uint64_t value, std::uint64_t limit) const {
  if (value <= limit) return;
  fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(file_), pointer(names), value, limit);
}

std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config) {
  const std::size_t count = config.size(family.keys.layers);
  config.check_limit(family.keys.layers.names, count, kMaxLayers);
  return count;
}

void check_multiple(const ConfigReader& config, const ConfigReader::Names& whole_names, std::size_t whole,
                    const ConfigReader::Names& part_names, std::size_t part) {
  if (whole % part == 0) return;
  config.refuse(whole_names, "got {}, need a multiple of {} ({})", whole, config.pointer(part_names), part);
}

Activation resolve_activation(const TextKey& key, const ConfigReader& config) {
  // gelu_fast and similar names are different formulas for the tanh form.
  static const std::pair<Activation, std::vector<std::string_view>> kActivationNames[] = {
      {Activation::gelu_erf, {"gelu", "gelu_python"}},
      {Activation::gelu_tanh,
       {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh", "gelu_accurate"}},
      {Activation::silu, {"silu", "swish"}},
      {Activation::relu, {"relu"}},
      {Activation::relu_squared, {"relu2"}},
      {Activation::tanh, {"tanh"}}};
  const std::string name = config.optional_text(key.names).value_or(key.default_value);
  std::vector<std::string_view> known;
  for (const auto& [activation, names] : kActivationNames) {
    if (std::ranges::count(names, name) > 0) return activation;
    known.insert(known.end(), names.begin(), names.end());
  }
  config.reject_unsupported(*config.find(key.names), fmt::format("{}", fmt::join(known, ", ")));
}

NormConfig resolve_norm(const FamilySpec& family, const ConfigReader& config) {
  NormConfig norm;
  norm.kind = family.norm;
  const NumberKey& key = family.keys.norm_eps;
  norm.eps = static_cast<float>(config.optional_positive(key.names).value_or(key.default_value));
  if (!(norm.eps > 0) || !std::isfinite(norm.eps))
    config.reject(*config.find(key.names), "a number that is above 0 and finite in float32");
  return norm;
}

NormConfig with_tensors(NormConfig norm, const NormSpec& spec) {
  if (!spec.present()) return {};
  norm.gain = !spec.gain.empty();
  norm.bias = !spec.bias.empty();
  return norm;
}

LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config, bool same_width) {
  if (same_width && spec.if_width_differs) return {};
  return {!spec.weight.empty(),
          !spec.bias.empty() && (spec.bias_if.empty() || config.flag(spec.bias_if, spec.bias_default))};
}

ModelConfig resolve_config(const FamilySpec& family, const checkpoint::ModelSource& source) {
  const std::string file = source.config_path.string();
  const ConfigReader config = ConfigReader::of_text(file, source.config);
  check_parts(family, config);
  if (family.sizes_from_tensors && !source.weights) {
    fail(Status::bad_input, "{}: model type {} takes its sizes from its weights; need a weights file",
         escaped(file), family.name);
  }
  ModelConfig model = family.sizes_from_tensors ? resolve_from_tensors(family, config, *source.weights)
                                                : resolve_from_config(family, config, source);
  model.family = family.name;
  model.special_ids = resolve_special_ids(config, model.embedding.vocabulary);
  return model;
}

}  // namespace attnctl::model
