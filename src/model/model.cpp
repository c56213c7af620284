#include "attnctl/model/model.hpp"

#include "attnctl/base/checked.hpp"
#include "attnctl/base/error.hpp"
#include "attnctl/model/family.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "model/binding.hpp"
#include "model/same_values.hpp"
#include "model/tensor_values.hpp"

namespace attnctl {

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
  std::map<LayerConfig::Key, LayerWeights> layers;  // by LayerConfig::stored()
  std::map<LayerConfig::Key, AttentionWeights> attentions;
  std::optional<EmbeddingWeights> embedding;
  std::optional<NormWeights> final_norm;
  std::optional<EmbeddingWeights> target_embedding;
  std::optional<HeadWeights> head;
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

EmbeddingWeights embedding_weights(const BoundEmbedding& bound, TensorValues& values) {
  return {values.table(bound.token),   values.table(bound.position),    values.table(bound.token_type),
          values.norm(bound.norm),     values.linear(bound.projection), values.table(bound.class_token),
          values.linear(bound.patches)};
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

const LayerWeights& Model::layer(std::size_t index) const {
  const LayerConfig::Key key = state_->config.layers.at(index).stored();
  const auto found = state_->layers.find(key);
  if (found != state_->layers.end()) return found->second;
  const BoundLayer& bound = state_->binding.layers.at(key);
  TensorValues& values = state_->values;
  LayerWeights weights;
  static_cast<AttentionWeights&>(weights) = attention(index);
  weights.attention_norm = values.norm(bound.attention_norm);
  weights.mlp_norm = values.norm(bound.mlp_norm);
  weights.attention_output_norm = values.norm(bound.attention_output_norm);
  weights.mlp_output_norm = values.norm(bound.mlp_output_norm);
  const auto mlp = [&](const BoundMlp& one) {
    return MlpWeights{values.linear(one.up), values.linear(one.gate), values.linear(one.down)};
  };
  weights.mlp = mlp(bound.mlp);
  weights.shared = mlp(bound.shared);
  weights.router = values.linear(bound.router);
  weights.shared_factor = values.linear(bound.shared_factor);
  weights.convolution = values.linear(bound.convolution);
  weights.convolution_norm = values.norm(bound.convolution_norm);
  for (const BoundMlp& expert : bound.experts) weights.experts.push_back(mlp(expert));
  return state_->layers.emplace(key, weights).first->second;
}

const AttentionWeights& Model::attention(std::size_t index) const {
  const LayerConfig::Key key = state_->config.layers.at(index).stored();
  const auto found = state_->attentions.find(key);
  if (found != state_->attentions.end()) return found->second;
  const BoundLayer& bound = state_->binding.layers.at(key);
  TensorValues& values = state_->values;
  const AttentionWeights weights{
      values.linear(bound.query),
      values.linear(bound.key),
      values.linear(bound.value),
      values.linear(bound.output),
      values.norm(bound.query_norm),
      values.norm(bound.key_norm),
      values.columns(bound.relative_bias, state_->config.layers[index].attention.heads),
      values.vector(bound.sinks),
      {values.columns(bound.distance_table, state_->config.d_model), values.norm(bound.distance_norm),
       values.linear(bound.distance_key), values.linear(bound.distance_query)}};
  return state_->attentions.emplace(key, weights).first->second;
}

const EmbeddingWeights& Model::embedding() const {
  if (!state_->embedding) state_->embedding = embedding_weights(state_->binding.embedding, state_->values);
  return *state_->embedding;
}

const EmbeddingWeights& Model::target_embedding() const {
  if (!state_->target_embedding)
    state_->target_embedding = embedding_weights(state_->binding.target_embedding, state_->values);
  return *state_->target_embedding;
}

NormWeights Model::encoder_norm() const {
  return state_->values.norm(state_->binding.encoder_norm);
}
NormWeights Model::final_norm() const {
  if (!state_->final_norm) state_->final_norm = state_->values.norm(state_->binding.final_norm);
  return *state_->final_norm;
}

const HeadWeights& Model::head() const {
  if (!state_->head) {
    const Binding& bound = state_->binding;
    TensorValues& values = state_->values;
    state_->head = HeadWeights{values.linear(bound.head_projection), values.linear(bound.head_transform),
                               values.norm(bound.head_norm), values.linear(bound.head_decoder)};
  }
  return *state_->head;
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
