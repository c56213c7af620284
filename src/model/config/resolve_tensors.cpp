#include <cmath>

#include "base/error.hpp"
#include "model/binding/head_slices.hpp"
#include "model/binding/tensor_names.hpp"
#include "model/config/resolve.hpp"
#include "model/config/shape_reader.hpp"

namespace attnctl {
namespace {

struct Located {
  LocatedWeight query, key, value, output;
};

Located locate(const LayerSpec& layer, const TensorNames& names, const ConfigReader& config) {
  const LocatedWeight query = names.find_weight_in_layer(layer.query, 0);
  if (!query.found()) {
    std::string known;
    for (const StoredTensor& tensor : layer.query.weight) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", names.in_layer(tensor.name, 0));
    }
    const FactorSpec& factors = layer.query.factors;
    if (factors.first) {
      known += fmt::format(", {} with {}", names.in_layer(factors.first->name, 0),
                           names.in_layer(factors.last->name, 0));
    }
    fail(Status::bad_input, "{}: no query projection; need one of {}", escaped(config.file()), known);
  }
  return {query, names.find_weight_in_layer(layer.key, 0), names.find_weight_in_layer(layer.value, 0),
          names.find_weight_in_layer(layer.output, 0)};
}

void resolve_value_sizes(const ShapeReader& reader, const Located& found, ModelConfig& model,
                         AttentionConfig& attention) {
  model.d_value_input = model.d_key_input;
  if (found.value.found()) {
    const Extents extents = reader.extents(found.value, attention.kv_heads, false);
    const LocatedTensor& tensor = found.value.at_outputs();
    model.d_value_input = extents.in;
    attention.d_value =
        reader.divided(tensor, reader.own_outputs(tensor, extents.out), attention.kv_heads, "kv_heads");
    attention.d_value = reader.agreed("d_value", attention.d_value, tensor);
  }
  if (found.output.found()) {
    const Extents extents = reader.extents(found.output, attention.heads, true);
    model.d_output = extents.out;
    if (!found.value.found()) {
      attention.d_value = reader.divided(found.output.at_inputs(), extents.in, attention.heads, "heads");
    }
  } else {
    model.d_output = attention.heads * attention.d_value;
  }
  if (!found.value.found()) model.d_output = 0;
}

/// Sizes that all layers share, from the first.
void resolve_sizes(const ShapeReader& reader, const ConfigReader& config, const Located& found,
                   ModelConfig& model, AttentionConfig& attention) {
  const Extents query = reader.extents(found.query, attention.query_slices(), false);
  const LocatedTensor& tensor = found.query.at_outputs();
  const char* const slices = attention.head_slices.empty() ? "heads" : "head_slices";
  model.d_model = model.d_key_input = query.in;
  attention.d_head =
      reader.divided(tensor, reader.own_outputs(tensor, query.out), attention.query_slices(), slices);
  attention.d_head = reader.agreed("d_head", attention.d_head, tensor);
  if (found.key.found()) {
    model.d_key_input = reader.extents(found.key, attention.kv_heads, false).in;
  } else if (attention.kv_heads != attention.query_slices()) {
    config.refuse(*config.find("kv_heads"),
                  fmt::format("{} (/heads) where the query projection serves the keys", attention.heads));
  }
  resolve_value_sizes(reader, found, model, attention);
  const auto scale = config.number(std::vector<std::string>{"scale"});
  attention.scale = scale.value_or(1 / std::sqrt(static_cast<double>(attention.d_head)));
}

void resolve_layer_parts(const FamilySpec& family, const ShapeReader& reader, const TensorNames& names,
                         std::size_t number, AttentionConfig& attention) {
  const auto parts = [&](const LinearSpec& spec) {
    const LocatedWeight weight = names.find_weight_in_layer(spec, number);
    return LinearParts{weight.found(), names.find_in_layer(spec.bias, number).has_value(),
                       weight.first ? reader.rank(*weight.first) : 0};
  };
  const LayerSpec& layer = family.stack.layer;
  attention.query = parts(layer.query);
  attention.key = parts(layer.key);
  attention.value = parts(layer.value);
  attention.output = parts(layer.output);
  attention.query.weight = true;  // if it is not there it is missing
  if (!attention.key.weight) attention.key.rank = attention.query.rank;
  if (!attention.value.weight) attention.value = attention.output = {};
}

void refuse_tensors(const FamilySpec& family, const TensorNames& names, std::size_t layers) {
  std::string all;
  for (const std::string& name : family.refused_tensors) all += (all.empty() ? "" : ", ") + name;
  for (const StoredTensor& tensor : stored(family.refused_tensors)) {
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const auto found = names.find_in_layer({&tensor, 1}, layer);
      if (!found) continue;
      fail(Status::bad_input,
           "{}: tensor \"{}\": unsupported, a key or value learned beside those of the input; need weights "
           "without {}",
           names.info(*found).file, escaped(names.info(*found).name), all);
    }
  }
}

AttentionKind resolve_attention_kind(const ConfigReader& config) {
  const auto text = config.text(std::vector<std::string>{"attention"});
  if (!text) return {};
  const auto kind = parse_attention_kind(*text);
  if (!kind) config.refuse_unsupported(*config.find("attention"), attention_kinds);
  return *kind;
}

EmbeddingConfig resolve_embedding(const FamilySpec& family, const ConfigReader& config,
                                  const TensorNames& names, std::size_t d_model) {
  EmbeddingConfig embedding;
  const std::string position = config.text(std::vector<std::string>{"position"}).value_or("none");
  if (position == "sinusoidal") embedding.position = PositionKind::sinusoidal;
  embedding.width = d_model;
  const auto table = names.find_outside_layers(stored(family.embedding.token));
  if (table) {
    const Shape& shape = names.info(*table).shape;
    embedding.vocabulary = shape.empty() ? 1 : shape[0];  // the rest is checked when it is bound
  }
  return embedding;
}

std::vector<std::string> resolve_vocabulary(const ConfigReader& config, const EmbeddingConfig& embedding) {
  const auto value = config.find("vocab");
  if (!value) return {};
  std::vector<std::string> vocabulary;
  if (!value->json->is_array()) config.refuse(*value, "a list of strings");
  for (const auto& token : *value->json) {
    if (!token.is_string()) config.refuse(*value, "a list of strings");
    vocabulary.push_back(token.get<std::string>());
  }
  if (embedding.vocabulary != 0 && vocabulary.size() != embedding.vocabulary) {
    fail(Status::bad_input, "{}: {}: got {} tokens, need {}, the rows of the embedding",
         escaped(config.file()), config.pointer("vocab"), vocabulary.size(), embedding.vocabulary);
  }
  return vocabulary;
}

}  // namespace

ModelConfig resolve_from_tensors(const FamilySpec& family, const ConfigReader& config,
                                 const Checkpoint& weights) {
  ModelConfig model;
  const std::size_t layers = resolve_layer_count(family, config);
  const TensorNames names(family, weights, layers);
  refuse_tensors(family, names, layers);

  LayerConfig layer;
  AttentionConfig& attention = layer.attention;
  attention.heads = config.size(family.keys.heads);
  attention.causal = config.flag(family.keys.causal_if).value_or(false);
  attention.kind = resolve_attention_kind(config);
  const ShapeReader reader(config, names);
  const Located found = locate(family.stack.layer, names, config);
  resolve_heads(reader, config, names, found.query.at_outputs(), attention);
  resolve_sizes(reader, config, found, model, attention);
  if (layers > 1 && found.value.found() && model.d_output != model.d_model) {
    fail(Status::bad_input, "{}: {}: got {}, but the output of a layer has width {} and its input {}",
         escaped(config.file()), config.pointer("layers"), layers, model.d_output, model.d_model);
  }
  layer.place = family.place;
  for (std::size_t i = 0; i < layers; ++i) {
    model.layers.push_back(layer);
    model.layers[i].number = model.layers[i].stored_as = i;
    resolve_layer_parts(family, reader, names, i, model.layers[i].attention);
  }
  model.embedding = resolve_embedding(family, config, names, model.d_model);
  model.vocabulary = resolve_vocabulary(config, model.embedding);
  return model;
}

}  // namespace attnctl
