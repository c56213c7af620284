#include "model/model.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "model/accounting/weight_bytes.hpp"
#include "model/binding/binding.hpp"
#include "model/binding/same_values.hpp"
#include "model/binding/tensor_values.hpp"
#include "model/families/family.hpp"

namespace attnctl {

namespace {

/// Weights, and what keeps them.
template <typename Weights>
struct Held {
  Weights weights;
  Holding holding;
};

}  // namespace

struct Model::State {
  State(ModelSource model_source, ModelConfig model_config, Warnings& model_warnings)
      : source(std::move(model_source)),
        config(std::move(model_config)),
        values(*source.weights, model_warnings) {}

  ModelSource source;
  ModelConfig config;
  Binding binding;
  std::vector<TensorUse> uses;  // [tensors]
  TensorValues values;
  std::map<LayerConfig::Key, Held<LayerWeights>> layers;  // by LayerConfig::stored()
  std::map<LayerConfig::Key, Held<AttentionWeights>> attentions;
  std::optional<Held<EmbeddingWeights>> embedding;
  std::optional<Held<EmbeddingWeights>> target_embedding;
  std::optional<Held<NormWeights>> encoder_norm;
  std::optional<Held<NormWeights>> final_norm;
  std::optional<Held<HeadWeights>> head;
};

namespace {

std::vector<TensorUse> uses_of(const Binding& binding, Checkpoint& weights) {
  const auto tensors = weights.tensors();
  std::vector<TensorUse> uses(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (binding.used[i]) {
      uses[i].role = TensorRole::parameter;
    } else if (!is_floating(tensors[i].dtype) || is_known_buffer(tensors[i].name)) {
      uses[i].role = TensorRole::buffer;
    }
  }
  for (const auto& [tensor, bound] : binding.alternatives) {
    if (uses[tensor].role == TensorRole::unused && same_values(weights, tensor, bound))
      uses[tensor] = {TensorRole::tied, bound};
  }
  return uses;
}

/// A head that the configuration says is not the embedding, in a file that has no other.
void warn_of_tied_head(const ModelSource& source, const ModelConfig& config, Warnings& warnings) {
  const auto tie = source.config.find("tie_word_embeddings");
  if (!config.head.present || !config.head.tied || tie == source.config.end() || *tie != false) return;
  warnings.add("head_from_embedding",
               fmt::format("{}: /tie_word_embeddings is false and the weights hold no output head; the token "
                           "embedding serves as one",
                           escaped(source.config_path.string())));
}

/// Row r, or column slice of row r, of a weight as it is stored.
std::span<const std::byte> stored_row(const TensorView& view, const BoundMatrix& bound, std::size_t r) {
  const std::size_t size = size_of(view.dtype);
  if (bound.axes == Axes::out_in)
    return view.bytes.subspan(bound.outputs.place(r) * bound.in * size, bound.in * size);
  const std::size_t stride = view.bytes.size() / size / bound.in;
  return view.bytes.subspan((r * stride + bound.outputs.first) * size, bound.out() * size);
}

/// Whether two weights are stored alike, with the same bytes. Unlike ones are told by their first row.
bool same_bytes(Checkpoint& weights, const BoundMatrix& a, const BoundMatrix& b) {
  if (a.tensor == no_tensor || b.tensor == no_tensor) return a.tensor == b.tensor;
  const bool alike = a.axes == b.axes && a.heads == b.heads && a.in == b.in && a.out() == b.out();
  if (!alike || weights.tensors()[a.tensor].dtype != weights.tensors()[b.tensor].dtype) return false;
  const TensorView first = weights.tensor(a.tensor);
  const TensorView second = weights.tensor(b.tensor);
  const std::size_t rows = a.axes == Axes::out_in ? a.out() : a.in;
  for (std::size_t r = 0; r < rows; ++r) {
    if (!std::ranges::equal(stored_row(first, a, r), stored_row(second, b, r))) return false;
  }
  return true;
}

Held<EmbeddingWeights> embedding_weights(const BoundEmbedding& bound, TensorValues& tensors) {
  Held<EmbeddingWeights> made;
  WeightReader reader(tensors, made.holding, nullptr);
  made.weights = {reader.table(bound.token),       reader.table(bound.position),
                  reader.table(bound.token_type),  reader.norm(bound.norm),
                  reader.linear(bound.projection), reader.table(bound.class_token),
                  reader.linear(bound.patches)};
  return made;
}

const NormWeights& norm_weights(std::optional<Held<NormWeights>>& kept, const BoundNorm& bound,
                                TensorValues& tensors) {
  if (!kept) {
    Held<NormWeights> made;
    made.weights = WeightReader(tensors, made.holding, nullptr).norm(bound);
    kept = std::move(made);
  }
  return kept->weights;
}

/// A layer without its attention, which is there.
void read_rest(LayerWeights& weights, const BoundLayer& bound, WeightReader& reader) {
  weights.attention_norm = reader.norm(bound.attention_norm);
  weights.mlp_norm = reader.norm(bound.mlp_norm);
  weights.attention_output_norm = reader.norm(bound.attention_output_norm);
  weights.mlp_output_norm = reader.norm(bound.mlp_output_norm);
  const auto mlp = [&](const BoundMlp& one) {
    return MlpWeights{reader.linear(one.up), reader.linear(one.gate), reader.linear(one.down)};
  };
  weights.mlp = mlp(bound.mlp);
  weights.shared = mlp(bound.shared);
  weights.router = reader.linear(bound.router);
  weights.shared_factor = reader.linear(bound.shared_factor);
  weights.convolution = reader.linear(bound.convolution);
  weights.convolution_norm = reader.norm(bound.convolution_norm);
  for (const BoundMlp& expert : bound.experts) weights.experts.push_back(mlp(expert));
}

AttentionWeights attention_weights(const BoundLayer& bound, const ModelConfig& config, std::size_t heads,
                                   WeightReader& reader) {
  return {reader.linear(bound.query),
          reader.linear(bound.key),
          reader.linear(bound.value),
          reader.linear(bound.output),
          reader.norm(bound.query_norm),
          reader.norm(bound.key_norm),
          reader.columns(bound.relative_bias, heads),
          reader.vector(bound.sinks),
          {reader.columns(bound.distance_table, config.d_model), reader.norm(bound.distance_norm),
           reader.linear(bound.distance_key), reader.linear(bound.distance_query)}};
}

}  // namespace

Model::Model() = default;
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

Model Model::bind(ModelSource source, Warnings& warnings) {
  const FamilySpec row = family_of(source.config_path.string(), source.config);
  ModelConfig config = resolve_config(row, source);
  return bind(std::move(source), row, std::move(config), warnings);
}

Model Model::bind(ModelSource source, const FamilySpec& row, ModelConfig config, Warnings& warnings) {
  Model model;
  model.state_ = std::make_unique<State>(std::move(source), std::move(config), warnings);
  State& state = *model.state_;
  const std::string config_file = state.source.config_path.string();
  state.binding = bind_tensors(row, state.config, *state.source.weights, config_file);
  state.uses = uses_of(state.binding, *state.source.weights);
  const std::size_t token =
      state.config.decoder ? state.binding.target_embedding.token : state.binding.embedding.token;
  const auto copies_embedding = [&](const TensorUse& use) {
    return use.role == TensorRole::tied && use.copy_of == token;
  };
  if (std::ranges::none_of(state.uses, copies_embedding))
    warn_of_tied_head(state.source, state.config, warnings);
  return model;
}

const ModelConfig& Model::config() const {
  return state_->config;
}
const ModelSource& Model::source() const {
  return state_->source;
}

void Model::replace_attention(AttentionKind kind, std::span<const std::size_t> layers) {
  for (const std::size_t layer : layers) state_->config.layers.at(layer).attention.kind = kind;
}

const LayerWeights& Model::layer(std::size_t index, Pool* pool) const {
  const LayerConfig& config = state_->config.layers.at(index);
  const LayerConfig::Key key = config.stored();
  const auto found = state_->layers.find(key);
  if (found != state_->layers.end()) return found->second.weights;
  const BoundLayer& bound = state_->binding.layers.at(key);
  Held<LayerWeights> made;
  WeightReader reader(state_->values, made.holding, pool);
  AttentionWeights& attention_part = made.weights;
  const auto attention = state_->attentions.find(key);
  if (attention != state_->attentions.end()) {
    attention_part = attention->second.weights;
    made.holding = attention->second.holding;
  } else {
    attention_part = attention_weights(bound, state_->config, config.attention.heads, reader);
  }
  read_rest(made.weights, bound, reader);
  return state_->layers.emplace(key, std::move(made)).first->second.weights;
}

const AttentionWeights& Model::attention(std::size_t index, Pool* pool) const {
  const LayerConfig& config = state_->config.layers.at(index);
  const LayerConfig::Key key = config.stored();
  const auto found = state_->attentions.find(key);
  if (found != state_->attentions.end()) return found->second.weights;
  Held<AttentionWeights> made;
  WeightReader reader(state_->values, made.holding, pool);
  made.weights =
      attention_weights(state_->binding.layers.at(key), state_->config, config.attention.heads, reader);
  return state_->attentions.emplace(key, std::move(made)).first->second.weights;
}

void Model::release_layer(std::size_t index) const {
  state_->layers.erase(state_->config.layers.at(index).stored());
}
void Model::release_attention(std::size_t index) const {
  state_->attentions.erase(state_->config.layers.at(index).stored());
}
void Model::release_embedding() const {
  state_->embedding.reset();
  state_->target_embedding.reset();
}

const EmbeddingWeights& Model::embedding() const {
  if (!state_->embedding) state_->embedding = embedding_weights(state_->binding.embedding, state_->values);
  return state_->embedding->weights;
}

const EmbeddingWeights& Model::target_embedding() const {
  if (!state_->target_embedding)
    state_->target_embedding = embedding_weights(state_->binding.target_embedding, state_->values);
  return state_->target_embedding->weights;
}

NormWeights Model::encoder_norm() const {
  return norm_weights(state_->encoder_norm, state_->binding.encoder_norm, state_->values);
}
NormWeights Model::final_norm() const {
  return norm_weights(state_->final_norm, state_->binding.final_norm, state_->values);
}

const HeadWeights& Model::head(Pool* pool) const {
  if (!state_->head) {
    const Binding& bound = state_->binding;
    Held<HeadWeights> made;
    WeightReader reader(state_->values, made.holding, pool);
    made.weights = {reader.linear(bound.head_projection), reader.linear(bound.head_transform),
                    reader.norm(bound.head_norm), reader.linear(bound.head_decoder)};
    state_->head = std::move(made);
  }
  return state_->head->weights;
}

std::uint64_t Model::layer_bytes(std::size_t index) const {
  const BoundLayer& bound = state_->binding.layers.at(state_->config.layers.at(index).stored());
  return WeightBytes(*state_->source.weights).add_layer(bound).total();
}

std::uint64_t Model::attention_bytes(std::size_t index) const {
  const BoundLayer& bound = state_->binding.layers.at(state_->config.layers.at(index).stored());
  return WeightBytes(*state_->source.weights).add_attention(bound).total();
}

std::uint64_t Model::embedding_bytes(std::size_t rows) const {
  WeightBytes bytes(*state_->source.weights);
  for (const BoundEmbedding* bound : {&state_->binding.embedding, &state_->binding.target_embedding}) {
    for (const std::size_t table : {bound->token, bound->position, bound->token_type, bound->class_token})
      bytes.add_table(table, rows);
    bytes.add(bound->norm).add(bound->projection).add(bound->patches);
  }
  return bytes.total();
}

std::uint64_t Model::head_bytes() const {
  const Binding& bound = state_->binding;
  WeightBytes bytes(*state_->source.weights);
  return bytes.add(bound.head_projection)
      .add(bound.head_transform)
      .add(bound.head_norm)
      .add(bound.head_decoder)
      .add(bound.final_norm)
      .add(bound.encoder_norm)
      .total();
}

bool Model::key_is_query(std::size_t index) const {
  const LayerConfig& layer = state_->config.layers.at(index);
  if (!layer.attention.key.weight) return true;
  const BoundLayer& bound = state_->binding.layers.at(layer.stored());
  Checkpoint& weights = *state_->source.weights;
  return same_bytes(weights, bound.query.weight, bound.key.weight) &&
         same_bytes(weights, bound.query.first, bound.key.first);
}

std::size_t Model::shared_with(std::size_t index) const {
  const auto& layers = state_->config.layers;
  std::size_t first = 0;
  while (layers[first].stored() != layers.at(index).stored()) ++first;
  return first;
}

std::uint64_t Model::parameters() const {
  const auto tensors = state_->source.weights->tensors();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (state_->uses[i].role == TensorRole::parameter) count += checked_product(tensors[i].shape).value();
  }
  return count;
}

std::size_t Model::unused_tensors() const {
  return static_cast<std::size_t>(std::ranges::count(state_->uses, TensorRole::unused, &TensorUse::role));
}

std::span<const TensorUse> Model::tensor_uses() const {
  return state_->uses;
}

}  // namespace attnctl
