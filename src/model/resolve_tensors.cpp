#include "attnctl/base/checked.hpp"
#include "attnctl/base/error.hpp"

#include <cmath>
#include <utility>

#include "model/resolve.hpp"
#include "model/tensor_names.hpp"

namespace attnctl {
namespace {

struct Extents {
  std::size_t in = 0;
  std::size_t out = 0;
};

/// Sizes of the bare mechanism, read off the tensors of its first layer.
class ShapeReader {
 public:
  ShapeReader(const ConfigReader& config, const TensorNames& names) : config_(config), names_(names) {}

  /// Extents of a projection; `heads` is the outer extent of a tensor of rank 3.
  [[nodiscard]] Extents extents(const LocatedTensor& tensor, std::size_t heads, bool output) const {
    const Shape& shape = names_.info(tensor).shape;
    Extents extents;
    if (shape.size() == 2) {
      extents = tensor.axes == Axes::out_in ? Extents{shape[1], shape[0]} : Extents{shape[0], shape[1]};
    } else if (shape.size() == 3 && tensor.axes == Axes::in_out_or_head) {
      if (shape[0] != heads) refuse(tensor, fmt::format("{} heads outermost", heads));
      extents = output ? Extents{multiplied(tensor, shape[0], shape[1]), shape[2]}
                       : Extents{shape[1], multiplied(tensor, shape[0], shape[2])};
    } else {
      refuse(tensor, tensor.axes == Axes::in_out_or_head ? "two or three dimensions" : "two dimensions");
    }
    if (extents.in == 0 || extents.out == 0) refuse(tensor, "no extent of 0");
    return extents;
  }

  [[nodiscard]] std::size_t divided(const LocatedTensor& tensor, std::size_t width, std::size_t heads,
                                    std::string_view key) const {
    if (width % heads != 0) {
      refuse(tensor, fmt::format("{} to be a multiple of {} ({} in {})", width, heads, config_.pointer(key),
                                 escaped(config_.file())));
    }
    return width / heads;
  }

  /// A size that the configuration may repeat; it must then say the same.
  [[nodiscard]] std::size_t agreed(const std::string& key, std::size_t found,
                                   const LocatedTensor& tensor) const {
    const auto said = config_.size(std::vector<std::string>{key});
    if (said && *said != found) {
      config_.refuse(*config_.find(key),
                     fmt::format("{} as tensor \"{}\" of shape {} has it", found,
                                 escaped(names_.info(tensor).name), to_string(names_.info(tensor).shape)));
    }
    return found;
  }

  [[noreturn]] void refuse(const LocatedTensor& tensor, const std::string& need) const {
    const TensorInfo& info = names_.info(tensor);
    fail(Status::bad_input, "{}: tensor \"{}\": got shape {}, need {}", info.file, escaped(info.name),
         to_string(info.shape), need);
  }

 private:
  [[nodiscard]] std::size_t multiplied(const LocatedTensor& tensor, std::size_t a, std::size_t b) const {
    const auto product = checked_product(std::vector<std::size_t>{a, b});
    if (!product) refuse(tensor, "extents whose product fits 64 bits");
    return *product;
  }

  const ConfigReader& config_;
  const TensorNames& names_;
};

/// Rows of [q; k; v] that belong to one of them, in a packed tensor of a mechanism with as many kv heads.
std::size_t own_outputs(const ShapeReader& reader, const LocatedTensor& tensor, std::size_t outputs) {
  if (tensor.packing == Packing::whole) return outputs;
  return reader.divided(tensor, outputs, 3, "the three projections");
}

struct Located {
  LocatedTensor query;
  std::optional<LocatedTensor> key, value, output;
};

Located locate(const LayerSpec& layer, const TensorNames& names, const ConfigReader& config) {
  const auto query = names.find_in_layer(layer.query.weight, 0);
  if (!query) {
    std::string known;
    for (const StoredTensor& tensor : layer.query.weight) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", names.in_layer(tensor.name, 0));
    }
    fail(Status::bad_input, "{}: no query projection; need one of {}", escaped(config.file()), known);
  }
  return {*query, names.find_in_layer(layer.key.weight, 0), names.find_in_layer(layer.value.weight, 0),
          names.find_in_layer(layer.output.weight, 0)};
}

void resolve_value_sizes(const ShapeReader& reader, const Located& found, ModelConfig& model,
                         AttentionConfig& attention) {
  model.d_value_input = model.d_key_input;
  if (found.value) {
    const Extents extents = reader.extents(*found.value, attention.kv_heads, false);
    model.d_value_input = extents.in;
    attention.d_value = reader.divided(*found.value, own_outputs(reader, *found.value, extents.out),
                                       attention.kv_heads, "kv_heads");
    attention.d_value = reader.agreed("d_value", attention.d_value, *found.value);
  }
  if (found.output) {
    const Extents extents = reader.extents(*found.output, attention.heads, true);
    model.d_output = extents.out;
    if (!found.value) attention.d_value = reader.divided(*found.output, extents.in, attention.heads, "heads");
  } else {
    model.d_output = attention.heads * attention.d_value;
  }
  if (!found.value) model.d_output = 0;
}

/// Sizes that all layers share, from the first.
void resolve_sizes(const ShapeReader& reader, const ConfigReader& config, const Located& found,
                   ModelConfig& model, AttentionConfig& attention) {
  const Extents query = reader.extents(found.query, attention.heads, false);
  model.d_model = model.d_key_input = query.in;
  attention.d_head =
      reader.divided(found.query, own_outputs(reader, found.query, query.out), attention.heads, "heads");
  attention.d_head = reader.agreed("d_head", attention.d_head, found.query);
  if (found.key) {
    model.d_key_input = reader.extents(*found.key, attention.kv_heads, false).in;
  } else if (attention.kv_heads != attention.heads) {
    config.refuse(*config.find("kv_heads"),
                  fmt::format("{} (/heads) where the query projection serves the keys", attention.heads));
  }
  resolve_value_sizes(reader, found, model, attention);
  const auto scale = config.number(std::vector<std::string>{"scale"});
  attention.scale = scale.value_or(1 / std::sqrt(static_cast<double>(attention.d_head)));
}

void resolve_layer_parts(const FamilySpec& family, const TensorNames& names, std::size_t number,
                         AttentionConfig& attention) {
  const auto parts = [&](const LinearSpec& spec) {
    return LinearParts{names.find_in_layer(spec.weight, number).has_value(),
                       names.find_in_layer(spec.bias, number).has_value()};
  };
  const LayerSpec& layer = family.stack.layer;
  attention.query = parts(layer.query);
  attention.key = parts(layer.key);
  attention.value = parts(layer.value);
  attention.output = parts(layer.output);
  attention.query.weight = true;  // if it is not there it is missing
  if (!attention.value.weight) attention.value = attention.output = {};
}

void refuse_tensors(const FamilySpec& family, const TensorNames& names) {
  const auto found = names.find_in_layer(stored(family.refused_tensors), 0);
  if (!found) return;
  fail(Status::bad_input, "{}: tensor \"{}\": unsupported, a learned key or value beside the input's",
       names.info(*found).file, escaped(names.info(*found).name));
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
  refuse_tensors(family, names);

  LayerConfig layer;
  AttentionConfig& attention = layer.attention;
  attention.heads = config.size(family.keys.heads);
  attention.kv_heads = config.size(std::span(family.keys.kv_heads.names)).value_or(attention.heads);
  if (attention.heads % attention.kv_heads != 0) {
    check_multiple(config, "heads", attention.heads, "kv_heads", attention.kv_heads);
  }
  attention.causal = config.flag(family.keys.causal_if).value_or(false);
  attention.kind = resolve_attention_kind(config);
  const ShapeReader reader(config, names);
  const Located found = locate(family.stack.layer, names, config);
  resolve_sizes(reader, config, found, model, attention);
  if (layers > 1 && found.value && model.d_output != model.d_model) {
    fail(Status::bad_input, "{}: {}: got {}, but the output of a layer has width {} and its input {}",
         escaped(config.file()), config.pointer("layers"), layers, model.d_output, model.d_model);
  }
  layer.place = family.place;
  for (std::size_t i = 0; i < layers; ++i) {
    model.layers.push_back(layer);
    model.layers[i].stored_as = i;
    resolve_layer_parts(family, names, i, model.layers[i].attention);
  }
  model.embedding = resolve_embedding(family, config, names, model.d_model);
  model.vocabulary = resolve_vocabulary(config, model.embedding);
  return model;
}

}  // namespace attnctl
