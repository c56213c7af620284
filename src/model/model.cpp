#include "model/model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "checkpoint/source.hpp"
#include "model/binding/tensor_names.hpp"
#include "model/families/family.hpp"
#include "model/shared.hpp"

namespace attnctl {

namespace {

OwnedMatrix<double> to_double(const StoredMatrix& matrix) {
  OwnedMatrix<double> out(matrix.in(), matrix.out());
  for (std::size_t i = 0; i < out.rows(); ++i) {
    for (std::size_t j = 0; j < out.cols(); ++j)
      out(i, j) = matrix.orientation == Orientation::in_out ? matrix.values(i, j) : matrix.values(j, i);
  }
  return out;
}

MatrixView<const float> input_range(const StoredMatrix& matrix, std::size_t begin, std::size_t count) {
  return matrix.orientation == Orientation::in_out ? matrix.values.row_range(begin, count)
                                                   : matrix.values.col_range(begin, count);
}

std::vector<TensorUse> find_tensor_uses(const Binding& binding, Checkpoint& weights) {
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

/// Adds a warning if the configuration requires a separate output matrix, but the checkpoint contains only
/// the embedding.
void warn_of_tied_head(const ModelSource& source, const ModelConfig& config, const Binding& binding,
                       std::span<const TensorUse> uses, Warnings& warnings) {
  const auto tie = source.config.find("tie_word_embeddings");
  if (!config.head.present || !config.head.tied || tie == source.config.end() || *tie != false) return;
  const std::size_t token = config.decoder ? binding.target_embedding.token : binding.embedding.token;
  const auto is_copy = [&](const TensorUse& use) {
    return use.role == TensorRole::tied && use.copy_of == token;
  };
  if (std::ranges::any_of(uses, is_copy)) return;
  warnings.add(
      "head_from_embedding",
      fmt::format("{}: /tie_word_embeddings is false, but the weights hold no output head; the token "
                  "embedding is used",
                  escaped(source.config_path.string())));
}

/// A checkpoint with random tensors [d, d].
class RandomWeights final : public Checkpoint {
 public:
  explicit RandomWeights(const RandomLayer& sizes) {
    const double deviation = 1 / std::sqrt(static_cast<double>(sizes.d_model));
    std::uint64_t stream = 1;
    for (const char* name : {"W_k", "W_o", "W_q", "W_v"}) {
      Random random(sizes.seed, stream++);
      std::vector<float>& values = values_.emplace_back(sizes.d_model * sizes.d_model);
      for (float& value : values) value = static_cast<float>(deviation * random.normal());
      infos_.push_back({name, DType::f32, {sizes.d_model, sizes.d_model}, "random weights"});
    }
  }
  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return infos_; }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    return {DType::f32, infos_.at(index).shape, std::as_bytes(std::span<const float>(values_.at(index)))};
  }

 private:
  std::vector<TensorInfo> infos_;
  std::vector<std::vector<float>> values_;
};

}  // namespace

Linear Linear::outputs(std::size_t begin, std::size_t count) const {
  Linear part = *this;
  part.stored =
      orientation == Orientation::in_out ? stored.col_range(begin, count) : stored.row_range(begin, count);
  if (!bias.empty()) part.bias = bias.subspan(begin, count);
  return part;
}

Linear Linear::inputs(std::size_t begin, std::size_t count) const {
  Linear part = *this;
  (factorised() ? part.first.values : part.stored) = input_range(factorised() ? first : last(), begin, count);
  part.bias = {};
  return part;
}

OwnedMatrix<double> Linear::in_out_double() const {
  if (!factorised()) return to_double(last());
  const OwnedMatrix<double> a = to_double(first);
  const OwnedMatrix<double> b = to_double(last());
  OwnedMatrix<double> product(a.rows(), b.cols());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t r = 0; r < a.cols(); ++r) {
      for (std::size_t j = 0; j < b.cols(); ++j) product(i, j) += a(i, r) * b(r, j);
    }
  }
  return product;
}

void LookupTable::row(std::size_t r, std::span<float> out) const {
  const std::size_t bytes = width() * size_of(tensor.dtype);
  convert(tensor.dtype, tensor.bytes.subspan(r * bytes, bytes), out);
}

Model::Model(std::shared_ptr<const ModelConfig> config, std::shared_ptr<Shared> shared)
    : config_(std::move(config)), shared_(std::move(shared)) {}

Model Model::bind(ModelSource source, Warnings& warnings) {
  const FamilySpec row = family_of(source.config_path.string(), source.config);
  ModelConfig config = resolve_config(row, source);
  return bind(std::move(source), row, std::move(config), warnings);
}

Model Model::bind(ModelSource source, const FamilySpec& row, ModelConfig config, Warnings& warnings) {
  Checkpoint& weights = *source.weights;
  Binding binding = bind_tensors(row, config, weights, source.config_path.string());
  std::vector<TensorUse> uses = find_tensor_uses(binding, weights);
  warn_of_tied_head(source, config, binding, uses, warnings);
  return {std::make_shared<const ModelConfig>(std::move(config)),
          std::make_shared<Shared>(std::move(source), std::move(binding), std::move(uses), warnings)};
}

const ModelSource& Model::source() const {
  return shared_->source;
}

const std::string& Model::name() const {
  return shared_->source.given;
}

Model Model::with_attention(AttentionKind kind, std::span<const std::size_t> layers) const {
  ModelConfig config = *config_;
  for (const std::size_t layer : layers) config.layers.at(layer).attention.kind = kind;
  return {std::make_shared<const ModelConfig>(std::move(config)), shared_};
}

std::size_t Model::shared_with(std::size_t index) const {
  const auto& layers = config_->layers;
  std::size_t first = 0;
  while (layers[first].stored() != layers.at(index).stored()) ++first;
  return first;
}

std::uint64_t Model::parameters() const {
  const auto tensors = source().weights->tensors();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (shared_->uses[i].role == TensorRole::parameter) count += checked_product(tensors[i].shape).value();
  }
  return count;
}

std::size_t Model::unused_tensors() const {
  return static_cast<std::size_t>(std::ranges::count(shared_->uses, TensorRole::unused, &TensorUse::role));
}

std::span<const TensorUse> Model::tensor_uses() const {
  return shared_->uses;
}

Model random_layer(const RandomLayer& sizes, Warnings& warnings) {
  ModelSource source;
  source.given = source.config_path = "random layer";
  source.config = {{"model_type", "attention"}, {"heads", sizes.heads}};
  source.config_text = source.config.dump();
  source.weights = std::make_unique<RandomWeights>(sizes);
  return Model::bind(std::move(source), warnings);
}

}  // namespace attnctl
