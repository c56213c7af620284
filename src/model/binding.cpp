#include "model/binding.hpp"

#include "attnctl/base/error.hpp"

#include <optional>

namespace attnctl {
namespace {

constexpr std::size_t most_missing_named = 8;

/// The outputs of one projection and, where several are packed in a tensor, its place among them.
struct Outputs {
  std::size_t heads = 1;
  std::size_t each = 0;
  std::size_t before = 0;  // outputs of the projections packed before it
  std::size_t all = 0;     // outputs of all that are packed

  [[nodiscard]] std::size_t count() const { return heads * each; }
};

Outputs alone(std::size_t outputs) {
  return {.heads = 1, .each = outputs, .before = 0, .all = outputs};
}

class Binder {
 public:
  Binder(const FamilySpec& family, const ModelConfig& config, const Checkpoint& weights,
         std::string config_file)
      : family_(family),
        config_(config),
        names_(family, weights, config.layers.size()),
        config_file_(std::move(config_file)) {
    bound_.used.resize(weights.tensors().size());
  }

  Binding bind() {
    bind_relative_bias();
    for (const LayerConfig& layer : config_.layers) {
      if (!bound_.layers.contains(layer.stored_as)) bind_layer(layer);
    }
    bind_embedding();
    bound_.final_norm = norm(family_.final_norm, config_.final_norm.kind, config_.d_model);
    if (config_.head.present) bind_head();
    report();
    return std::move(bound_);
  }

 private:
  void bind_relative_bias();
  void bind_layer(const LayerConfig& layer);
  void bind_embedding();
  void bind_head();

  /// Names of the current layer, or outside of layers.
  [[nodiscard]] std::optional<LocatedTensor> find(std::span<const StoredTensor> names) const {
    if (absolute_) return names_.find_absolute(names);
    return number_ ? names_.find_in_layer(names, *number_) : names_.find_outside_layers(names);
  }

  /// Found, or noted as missing.
  std::optional<LocatedTensor> need(std::span<const StoredTensor> names) {
    auto found = find(names);
    if (found) {
      use(*found);
      note_alternatives(names, found->index);
      return found;
    }
    if (missing_count_++ < most_missing_named) {
      const std::string& name = names.front().name;
      missing_ += missing_.empty() ? "" : ", ";
      missing_ += absolute_ ? name : number_ ? names_.in_layer(name, *number_) : names_.outside_layers(name);
    }
    return std::nullopt;
  }

  /// What else is stored under these names.
  void note_alternatives(std::span<const StoredTensor> names, std::size_t bound) {
    for (const StoredTensor& name : names) {
      const auto other = find({&name, 1});
      if (other && other->index != bound) bound_.alternatives.push_back({other->index, bound});
    }
  }

  void use(const LocatedTensor& tensor) {
    bound_.used[tensor.index] = true;
    const TensorInfo& info = names_.info(tensor);
    if (is_floating(info.dtype) || !wrong_.empty()) return;
    wrong_ = fmt::format("{}: tensor \"{}\": got dtype {}, need F64, F32, F16 or BF16", info.file,
                         escaped(info.name), name_of(info.dtype));
  }

  void expect_shape(const LocatedTensor& tensor, const Shape& need) {
    const TensorInfo& info = names_.info(tensor);
    if (info.shape == need || !wrong_.empty()) return;
    wrong_ =
        fmt::format("{}: tensor \"{}\": got shape {}, need {} ({} by {}{})", info.file, escaped(info.name),
                    to_string(info.shape), to_string(need), because_, escaped(config_file_),
                    family_.sizes == SizesFrom::tensors ? " and the first layer's projections" : "");
  }

  BoundLinear linear(const LinearSpec& spec, LinearParts parts, std::size_t in, const Outputs& out,
                     bool heads_inward = false) {
    BoundLinear bound;
    if (parts.weight && parts.rank > 0) {
      bound.first = matrix({&spec.factors.first.value(), 1}, in, alone(parts.rank), heads_inward);
      bound.weight = matrix({&spec.factors.last.value(), 1}, parts.rank, out, false);
    } else if (parts.weight) {
      bound.weight = matrix(spec.weight, in, out, heads_inward);
    }
    if (parts.bias) bound.bias = bias(spec.bias, out);
    return bound;
  }

  BoundMatrix matrix(std::span<const StoredTensor> names, std::size_t in, const Outputs& out,
                     bool heads_inward);
  BoundVector bias(std::span<const StoredTensor> names, const Outputs& out);
  BoundVector vector(const std::vector<std::string>& names, std::size_t width);
  BoundNorm norm(const NormSpec& spec, NormKind kind, std::size_t width);
  std::size_t table(const std::vector<std::string>& names, std::size_t rows, std::string because);
  void report() const;

  const FamilySpec& family_;
  const ModelConfig& config_;
  TensorNames names_;
  std::string config_file_;
  Binding bound_;
  std::optional<std::size_t> number_;  // of the current layer
  bool absolute_ = false;              // names are of the head
  std::size_t heads_ = 1;              // of the current layer, for an output projection of rank 3
  BoundVector relative_bias_;          // of the current stack
  std::string because_;
  std::string missing_;
  std::size_t missing_count_ = 0;
  std::string wrong_;
};

BoundMatrix Binder::matrix(std::span<const StoredTensor> names, std::size_t in, const Outputs& out,
                           bool heads_inward) {
  const auto found = need(names);
  if (!found) return {};
  const bool packed = found->packing == Packing::query_key_value;
  const std::size_t stored_out = packed ? out.all : out.count();
  BoundMatrix bound = {.tensor = found->index,
                       .axes = found->axes,
                       .first = packed ? out.before : 0,
                       .in = in,
                       .out = out.count()};
  if (found->axes == Axes::out_in) {
    expect_shape(*found, {stored_out, in});
  } else if (found->axes == Axes::in_out_or_head && names_.info(*found).shape.size() == 3) {
    expect_shape(*found,
                 heads_inward ? Shape{heads_, in / heads_, stored_out} : Shape{out.heads, in, out.each});
    if (!heads_inward) bound.heads = out.heads;
  } else {
    expect_shape(*found, {in, stored_out});
  }
  return bound;
}

BoundVector Binder::bias(std::span<const StoredTensor> names, const Outputs& out) {
  const auto found = need(names);
  if (!found) return {};
  const bool packed = found->packing == Packing::query_key_value;
  if (found->axes == Axes::in_out_or_head && names_.info(*found).shape.size() == 2) {
    expect_shape(*found, {out.heads, out.each});
  } else {
    expect_shape(*found, {packed ? out.all : out.count()});
  }
  return {found->index, packed ? out.before : 0, out.count()};
}

BoundVector Binder::vector(const std::vector<std::string>& names, std::size_t width) {
  const auto found = need(stored(names));
  if (!found) return {};
  expect_shape(*found, {width});
  return {found->index, 0, width};
}

BoundNorm Binder::norm(const NormSpec& spec, NormKind kind, std::size_t width) {
  BoundNorm bound;
  if (kind == NormKind::none) return bound;
  bound.gain = vector(spec.gain, width);
  if (!spec.bias.empty()) bound.bias = vector(spec.bias, width);
  return bound;
}

std::size_t Binder::table(const std::vector<std::string>& names, std::size_t rows, std::string because) {
  const auto found = need(stored(names));
  if (!found) return no_tensor;
  because_ = std::move(because);
  expect_shape(*found, {rows, config_.embedding.width});
  return found->index;
}

void Binder::bind_relative_bias() {
  const AttentionConfig& attention = config_.layers.front().attention;
  if (!attention.relative_buckets) return;
  const std::size_t rows = attention.relative_buckets->rows;
  const auto found = need(stored(family_.stack.relative->table));
  if (!found) return;
  because_ = fmt::format("{} buckets of distances, {} heads", rows, attention.heads);
  expect_shape(*found, {rows, attention.heads});
  relative_bias_ = {found->index, 0, rows * attention.heads};
}

void Binder::bind_layer(const LayerConfig& layer) {
  const AttentionConfig& attention = layer.attention;
  const LayerSpec& spec = family_.stack.layer;
  number_ = layer.stored_as;
  heads_ = attention.heads;
  because_ = fmt::format("width {}, {} heads, {} key/value heads, head dimension {}", config_.d_model,
                         attention.heads, attention.kv_heads, attention.d_head);
  Outputs query{.heads = attention.query_slices(), .each = attention.d_head};
  Outputs key{.heads = attention.kv_heads, .each = attention.d_head, .before = query.count()};
  Outputs value{
      .heads = attention.kv_heads, .each = attention.d_value, .before = query.count() + key.count()};
  query.all = key.all = value.all = value.before + value.count();

  BoundLayer bound;
  bound.relative_bias = relative_bias_;
  bound.query = linear(spec.query, attention.query, config_.d_model, query);
  bound.key = linear(spec.key, attention.key, config_.d_key_input, key);
  if (!attention.key.weight) {
    bound.key.weight = bound.query.weight;
    bound.key.first = bound.query.first;
  }
  bound.value = linear(spec.value, attention.value, config_.d_value_input, value);
  bound.output = linear(spec.output, attention.output, attention.heads * attention.d_value,
                        alone(config_.d_output), true);
  bound.query_norm = norm(spec.query_norm, attention.head_norm.kind, attention.d_head);
  bound.key_norm = norm(spec.key_norm, attention.head_norm.kind, attention.d_head);
  if (layer.place != NormPlace::none) {
    bound.attention_norm = norm(spec.attention_norm, layer.norm.kind, config_.d_model);
    bound.mlp_norm = norm(spec.mlp_norm, layer.norm.kind, config_.d_model);
  }
  if (layer.mlp.width > 0) {
    because_ = fmt::format("width {}, MLP width {}", config_.d_model, layer.mlp.width);
    const LinearParts parts = {true, layer.mlp.bias};
    bound.up = linear(spec.up, parts, config_.d_model, alone(layer.mlp.width));
    if (layer.mlp.gated) bound.gate = linear(spec.gate, parts, config_.d_model, alone(layer.mlp.width));
    bound.down = linear(spec.down, parts, layer.mlp.width, alone(config_.d_model));
  }
  bound_.layers.emplace(layer.stored_as, bound);
  number_.reset();
}

void Binder::bind_embedding() {
  const EmbeddingSpec& spec = family_.embedding;
  const EmbeddingConfig& embedding = config_.embedding;
  if (embedding.vocabulary > 0) {
    bound_.token =
        table(spec.token, embedding.vocabulary, fmt::format("vocabulary of {}", embedding.vocabulary));
  }
  if (embedding.position == PositionKind::learned) {
    const std::size_t rows = config_.max_positions.value() + embedding.position_offset;
    bound_.position = table(spec.position, rows, fmt::format("{} positions", *config_.max_positions));
  }
  if (embedding.token_types > 0) {
    bound_.token_type =
        table(spec.token_type, embedding.token_types, fmt::format("{} token types", embedding.token_types));
  }
  because_ = fmt::format("embedding width {}, model width {}", embedding.width, config_.d_model);
  bound_.embedding_norm = norm(spec.norm, embedding.norm.kind, embedding.width);
  bound_.projection = linear(spec.projection, embedding.projection, embedding.width, alone(config_.d_model));
}

void Binder::bind_head() {
  const HeadSpec& spec = *family_.head;
  const HeadConfig& head = config_.head;
  const std::size_t width = head.transform || head.tied ? config_.embedding.width : config_.d_model;
  absolute_ = true;
  because_ = fmt::format("model width {}, embedding width {}, vocabulary of {}", config_.d_model,
                         config_.embedding.width, config_.embedding.vocabulary);
  if (head.transform) {
    bound_.head_transform = linear(spec.transform, {true, true}, config_.d_model, alone(width));
    bound_.head_norm = norm(spec.transform_norm, head.norm.kind, width);
  }
  const Outputs vocabulary = alone(config_.embedding.vocabulary);
  bound_.head_decoder = linear(spec.decoder, {!head.tied, head.bias}, width, vocabulary);
  if (head.tied) {
    if (const auto copy = find(spec.decoder.weight))
      bound_.alternatives.push_back({copy->index, bound_.token});
    bound_.head_decoder.weight = {
        .tensor = bound_.token, .axes = Axes::out_in, .in = width, .out = vocabulary.count()};
  }
}

void Binder::report() const {
  const auto tensors = names_.weights().tensors();
  const std::string_view file = tensors.empty() ? std::string_view(config_file_) : tensors.front().file;
  if (missing_count_ > 0) {
    const std::string more = missing_count_ > most_missing_named
                                 ? fmt::format(" and {} more", missing_count_ - most_missing_named)
                                 : "";
    fail(Status::bad_input, "{}: {} {} missing that {} needs: {}{}", escaped(file), missing_count_,
         missing_count_ == 1 ? "tensor is" : "tensors are", escaped(config_file_), missing_, more);
  }
  if (!wrong_.empty()) fail(Status::bad_input, "{}", wrong_);
}

}  // namespace

Binding bind_tensors(const FamilySpec& family, const ModelConfig& config, const Checkpoint& weights,
                     const std::string& config_file) {
  return Binder(family, config, weights, config_file).bind();
}

}  // namespace attnctl
