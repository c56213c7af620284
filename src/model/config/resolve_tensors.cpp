#include <algorithm>
#include <cmath>
#include <span>

#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "checkpoint/readers.hpp"
#include "model/binding/binding.hpp"
#include "model/config/resolve.hpp"

namespace attnctl::model {
namespace {

struct Extents {
  std::size_t in = 0;
  std::size_t out = 0;
};

struct LocatedProjections {
  LocatedWeight query, key, value, output;
};

std::vector<std::size_t> read_head_slices(const ConfigReader& config, std::size_t heads) {
  const auto value = config.find("head_slices");
  if (!value) return {};
  if (!value->json->is_array() || value->json->size() != heads)
    config.reject(*value, fmt::format("a list of {} numbers (/heads), the slice of each head", heads));
  std::vector<std::size_t> slices;
  for (const auto& number : *value->json) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= ConfigReader::kLargestSize) {
      config.reject({fmt::format("head_slices/{}", slices.size()), &number},
                    fmt::format("the number of a slice, 0 to {}", ConfigReader::kLargestSize - 1));
    }
    slices.push_back(number.get<std::size_t>());
  }
  return slices;
}

std::vector<std::string> resolve_vocabulary(const ConfigReader& config, std::size_t rows) {
  const auto value = config.find("vocab");
  if (!value) return {};
  const auto is_text = [](const auto& token) { return token.is_string(); };
  if (!value->json->is_array() || !std::ranges::all_of(*value->json, is_text))
    config.reject(*value, "a list of strings");
  if (rows != 0 && value->json->size() != rows)
    config.refuse({"vocab"}, "got {} tokens, need {}, the number of rows of the embedding",
                  value->json->size(), rows);
  return value->json->get<std::vector<std::string>>();
}

/// Implements resolve_from_tensors(). If a shape or a value is wrong, the functions throw Error(bad_input)
/// with the name of the tensor or the key.
class BareResolver {
 public:
  BareResolver(const FamilySpec& family, const ConfigReader& config, const checkpoint::Checkpoint& weights)
      : family_(family),
        config_(config),
        layers_(resolve_layer_count(family, config)),
        names_(family, weights, layers_) {}

  [[nodiscard]] ModelConfig resolve() const {
    ModelConfig model;
    check_rejected_tensors();
    LayerConfig layer;
    AttentionConfig& attention = layer.attention;
    attention.heads = config_.size(family_.keys.heads);
    attention.causal = config_.flag(family_.keys.causal_if);
    const auto kind = parse_attention_kind(config_.optional_text({"attention"}).value_or("full"));
    if (!kind) config_.reject_unsupported(*config_.find("attention"), kAttentionKinds);
    attention.kind = *kind;
    const LocatedProjections found = locate_projections();
    resolve_heads(found.query.back(), attention);
    resolve_sizes(found, model, attention);
    if (layers_ > 1 && !found.value.empty() && model.d_output != model.d_model) {
      config_.refuse({"layers"}, "got {}, need 1, because a layer has output width {} and input width {}",
                     layers_, model.d_output, model.d_model);
    }
    layer.place = family_.place;
    for (std::size_t i = 0; i < layers_; ++i) {
      LayerConfig& added = model.layers.emplace_back(layer);
      added.number = added.stored_as = i;
      resolve_layer_parts(i, added.attention);
    }
    EmbeddingConfig& embedding = model.embedding;
    if (config_.optional_text({"position"}) == "sinusoidal") embedding.position = PositionKind::sinusoidal;
    embedding.width = model.d_model;
    if (const auto table = names_.find(family_.embedding.token, names_.outside_layers())) {
      const Shape& shape = names_.info(*table).shape;
      embedding.vocabulary = shape.empty() ? 1 : shape[0];  // bind_tensors() checks the other extents
    }
    model.vocabulary = resolve_vocabulary(config_, embedding.vocabulary);
    return model;
  }

 private:
  /// Returns the numbers of inputs and outputs of a projection, which may be factorized. A tensor with three
  /// dimensions must have `heads` as its first extent. The head axis belongs to the inputs if the projection
  /// is W_O (`is_output`), otherwise to the outputs.
  [[nodiscard]] Extents extents(const LocatedWeight& weight, std::size_t heads, bool is_output) const {
    const Extents first = extents(weight.front(), heads, is_output);
    if (weight.size() == 1) return first;
    const Extents last = extents(weight.back(), heads, is_output);
    if (first.out != last.in) {
      const checkpoint::TensorInfo& info = names_.info(weight.front());
      reject(weight.back(), fmt::format("{} inputs, the rank of tensor \"{}\" of shape {}", first.out,
                                        escaped(info.name), to_string(info.shape)));
    }
    return {first.in, last.out};
  }

  [[nodiscard]] std::size_t rank(const LocatedTensor& first) const {
    const Shape& shape = names_.info(first).shape;
    if (shape.size() < 2 || shape.back() == 0) reject(first, "two dimensions and no extent of 0");
    return shape.back();
  }

  /// Returns width / parts, or width / 3 / parts if the tensor packs [q; k; v]. Throws if the result is not
  /// an integer. `parts` comes from the key `key`.
  [[nodiscard]] std::size_t divided(const LocatedTensor& tensor, std::size_t width, std::size_t parts,
                                    std::string_view key) const {
    if (tensor.packing != Packing::whole) {
      if (width % 3 != 0)
        reject(tensor, fmt::format("{} to be a multiple of 3, the number of packed projections", width));
      width /= 3;
    }
    if (width % parts != 0) {
      reject(tensor, fmt::format("{} to be a multiple of {} ({} in {})", width, parts, config_.pointer(key),
                                 escaped(config_.file())));
    }
    return width / parts;
  }

  /// Returns `found`, the size in a tensor. Throws if the configuration has another value for `key`.
  [[nodiscard]] std::size_t checked(const std::string& key, std::size_t found,
                                    const LocatedTensor& tensor) const {
    if (const auto given = config_.optional_size({key}); given && *given != found) {
      config_.refuse({key},
                     "got {}, need {}, which follows from tensor \"{}\" of shape {} and the number of heads",
                     *given, found, escaped(names_.info(tensor).name), to_string(names_.info(tensor).shape));
    }
    return found;
  }

  [[nodiscard]] Extents extents(const LocatedTensor& tensor, std::size_t heads, bool is_output) const {
    const Shape& shape = names_.info(tensor).shape;
    Extents extents;
    if (shape.size() == 2) {
      extents = tensor.axes == Axes::out_in ? Extents{shape[1], shape[0]} : Extents{shape[0], shape[1]};
    } else if (shape.size() == 3 && tensor.axes == Axes::in_out_or_head) {
      if (shape[0] != heads)
        reject(tensor, fmt::format("a first extent of {}, the number of stored heads", heads));
      const auto joined = checked_mul(shape[0], shape[is_output ? 1 : 2]);
      if (!joined) reject(tensor, "extents whose product fits 64 bits");
      extents = is_output ? Extents{*joined, shape[2]} : Extents{shape[1], *joined};
    } else {
      reject(tensor, tensor.axes == Axes::in_out_or_head ? "two or three dimensions" : "two dimensions");
    }
    if (extents.in == 0 || extents.out == 0) reject(tensor, "no extent of 0");
    return extents;
  }

  [[noreturn]] void reject(const LocatedTensor& tensor, const std::string& need) const {
    const checkpoint::TensorInfo& info = names_.info(tensor);
    checkpoint::refuse_tensor(info.file, info.name, "got shape {}, need {}", to_string(info.shape), need);
  }

  LocatedProjections locate_projections() const {
    const LayerSpec& layer = family_.layer;
    const std::string prefix = names_.in_layer({});
    const LocatedWeight query = names_.find_weight(layer.query, prefix);
    if (query.empty()) {
      const auto name = [&](const StoredTensor& tensor) { return prefix + tensor.name; };
      fail(Status::bad_input, "{}: the weights have no query projection; need one of {}, or {}{} with {}{}",
           escaped(config_.file()), join_texts(layer.query.weight, name), prefix,
           layer.query.factors.front().name, prefix, layer.query.factors.back().name);
    }
    return {query, names_.find_weight(layer.key, prefix), names_.find_weight(layer.value, prefix),
            names_.find_weight(layer.output, prefix)};
  }

  /// Returns the number of slices in the query projection of tied heads: the first extent of a tensor with
  /// three dimensions, otherwise according to /d_head or /kv_heads, otherwise 1 plus the largest number in
  /// /head_slices.
  std::size_t count_slices(const LocatedTensor& query, std::span<const std::size_t> slices) const {
    const Shape& shape = names_.info(query).shape;
    if (shape.size() == 3) return shape[0];
    const auto d_head = config_.optional_size({"d_head"});
    if (d_head && shape.size() == 2)
      return divided(query, shape[query.axes == Axes::out_in ? 0 : 1], *d_head, "d_head");
    return config_.optional_size({"kv_heads"}).value_or(*std::ranges::max_element(slices) + 1);
  }

  /// Sets kv_heads and head_slices. If /head_slices is given (several heads may use the same slice of the
  /// stored projections), kv_heads is the number of stored slices. Otherwise, kv_heads is /kv_heads, or
  /// /heads if /kv_heads is missing.
  void resolve_heads(const LocatedTensor& query, AttentionConfig& attention) const {
    attention.head_slices = read_head_slices(config_, attention.heads);
    const auto kv_heads = config_.optional_size({"kv_heads"});
    if (attention.head_slices.empty()) {
      attention.kv_heads = kv_heads.value_or(attention.heads);
      check_multiple(config_, {"heads"}, attention.heads, {"kv_heads"}, attention.kv_heads);
      return;
    }
    attention.kv_heads = count_slices(query, attention.head_slices);
    if (kv_heads && *kv_heads != attention.kv_heads) {
      config_.refuse({"kv_heads"}, "got {}, need {}, the number of slices of tied heads (/head_slices)",
                     *kv_heads, attention.kv_heads);
    }
    for (std::size_t i = 0; i < attention.heads; ++i) {
      if (attention.head_slices[i] < attention.kv_heads) continue;
      config_.refuse({fmt::format("head_slices/{}", i)},
                     "got {}, need a number below {}, the number of stored slices", attention.head_slices[i],
                     attention.kv_heads);
    }
  }

  void resolve_value_sizes(const LocatedProjections& found, ModelConfig& model,
                           AttentionConfig& attention) const {
    model.d_value_input = model.d_key_input;
    if (!found.value.empty()) {
      const Extents sizes = extents(found.value, attention.kv_heads, false);
      const LocatedTensor& tensor = found.value.back();
      const char* const key = config_.find("kv_heads")        ? "kv_heads"
                              : attention.head_slices.empty() ? "heads"
                                                              : "head_slices";
      attention.d_value = checked("d_value", divided(tensor, sizes.out, attention.kv_heads, key), tensor);
      model.d_value_input = sizes.in;
      model.d_output = attention.heads * attention.d_value;
    }
    if (found.output.empty()) return;
    const Extents sizes = extents(found.output, attention.heads, true);
    const LocatedTensor& tensor = found.output.front();
    if (!found.value.empty()) {
      model.d_output = sizes.out;
    } else {
      attention.d_value = checked("d_value", divided(tensor, sizes.in, attention.heads, "heads"), tensor);
    }
  }

  /// Sets the sizes that all layers share, from the tensors of the first layer.
  void resolve_sizes(const LocatedProjections& found, ModelConfig& model, AttentionConfig& attention) const {
    const std::size_t slices = attention.query_slices();
    const Extents query = extents(found.query, slices, false);
    const LocatedTensor& tensor = found.query.back();
    const char* const slices_key = attention.head_slices.empty() ? "heads" : "head_slices";
    model.d_model = model.d_key_input = query.in;
    attention.d_head = checked("d_head", divided(tensor, query.out, slices, slices_key), tensor);
    if (!found.key.empty()) {
      model.d_key_input = extents(found.key, attention.kv_heads, false).in;
    } else if (attention.kv_heads != slices) {
      config_.refuse({"kv_heads"}, "got {}, need {} (/heads), because the query projection is used for keys",
                     attention.kv_heads, attention.heads);
    }
    resolve_value_sizes(found, model, attention);
    attention.scale =
        config_.optional_number({"scale"}).value_or(1 / std::sqrt(static_cast<double>(attention.d_head)));
  }

  void resolve_layer_parts(std::size_t number, AttentionConfig& attention) const {
    const std::string prefix = names_.in_layer({.number = number});
    const auto parts = [&](const LinearSpec& spec) {
      const LocatedWeight weight = names_.find_weight(spec, prefix);
      return LinearParts{!weight.empty(), names_.find(spec.bias, prefix).has_value(),
                         weight.size() == 2 ? rank(weight.front()) : 0};
    };
    const LayerSpec& layer = family_.layer;
    attention.query = parts(layer.query);
    attention.key = parts(layer.key);
    attention.value = parts(layer.value);
    attention.output = parts(layer.output);
    attention.query.weight = true;  // if the weight is missing, bind_tensors() reports it
    if (!attention.key.weight) attention.key.rank = attention.query.rank;
    if (!attention.value.weight) attention.value = attention.output = {};
  }

  void check_rejected_tensors() const {
    for (const StoredTensor& tensor : family_.rejected_tensors) {
      for (std::size_t layer = 0; layer < layers_; ++layer) {
        const auto found = names_.find({&tensor, 1}, names_.in_layer({.number = layer}));
        if (!found) continue;
        checkpoint::refuse_tensor(names_.info(*found).file, names_.info(*found).name,
                                  "learned key or value vectors are unsupported; need weights without {}",
                                  join_texts(family_.rejected_tensors, &StoredTensor::name));
      }
    }
  }

  const FamilySpec& family_;
  const ConfigReader& config_;
  std::size_t layers_;
  TensorNames names_;
};

}  // namespace

ModelConfig resolve_from_tensors(const FamilySpec& family, const ConfigReader& config,
                                 const checkpoint::Checkpoint& weights) {
  return BareResolver(family, config, weights).resolve();
}

}  // namespace attnctl::model
