#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "model/config/config.hpp"
#include "model/weights.hpp"

namespace attnctl::checkpoint {
struct ModelSource;  // checkpoint/source.hpp
}  // namespace attnctl::checkpoint

namespace attnctl::model {

struct FamilySpec;

/// How a model uses a tensor of its checkpoint.
enum class TensorRole {
  parameter,  // the model computes with it
  tied,       // a stored copy of a parameter
  buffer,     // position ids, causal masks, rotary frequencies, integers: not trained
  unused      // trained, but not used by the model: poolers, heads of other tasks
};

struct TensorUse {
  TensorRole role = TensorRole::unused;
  std::size_t copy_of = checkpoint::Checkpoint::npos;  // index of the copied parameter if `role` is tied
};

/// A checkpoint and its configuration, checked against each other: every tensor that the configuration needs
/// exists and has the right shape. A model does not change after its construction. Copies share the weights.
/// All functions are thread-safe.
class Model {
 public:
  /// Reads the configuration and finds the weights; source.weights must not be null. Throws Error(bad_input)
  /// with the JSON pointer if the configuration is wrong, or with a list of tensors that are missing or have
  /// a wrong shape or type. May add the warning head_from_embedding; the first use of a tensor may add
  /// non_finite_weight. `warnings` must outlive the model.
  [[nodiscard]] static Model bind(checkpoint::ModelSource source, Warnings& warnings);
  /// As above, but with `row` and `config` instead of the family and the configuration that the source names.
  [[nodiscard]] static Model bind(checkpoint::ModelSource source, const FamilySpec& row, ModelConfig config,
                                  Warnings& warnings);

  [[nodiscard]] const ModelConfig& config() const { return *config_; }
  [[nodiscard]] const checkpoint::ModelSource& source() const;
  [[nodiscard]] const std::string& name() const;  // the MODEL argument of the command, for messages

  /// Returns a model with another kind of attention in some layers. It shares its weights with this model.
  [[nodiscard]] Model with_attention(AttentionKind kind, std::span<const std::size_t> layers) const;

  /// Return weights as float32. Weights that are stored as float32 are views of the mapped file if they are
  /// aligned and contiguous. Other weights are converted or copied at their first use, on `pool` if it is not
  /// null; the rows of a LookupTable, only when they are read. The weights stay in memory until they are
  /// evicted. Layers that share weights return the same object.
  [[nodiscard]] Lease<LayerWeights> layer(std::size_t index, Pool* pool = nullptr) const;
  /// Returns only the attention weights of a layer.
  [[nodiscard]] Lease<AttentionWeights> attention(std::size_t index, Pool* pool = nullptr) const;
  [[nodiscard]] Lease<EmbeddingWeights> embedding() const;
  /// The decoder's embedding in encoder-decoder models.
  [[nodiscard]] Lease<EmbeddingWeights> target_embedding() const;
  [[nodiscard]] Lease<HeadWeights> head(Pool* pool = nullptr) const;
  [[nodiscard]] NormWeights encoder_norm() const;  // stays in memory; cannot be evicted
  [[nodiscard]] NormWeights final_norm() const;    // stays in memory; cannot be evicted

  /// Remove weights from the cache. Their memory, including pages of the mapped file, is freed as soon as no
  /// lease and no other cached weights use it. A later call reads the weights again.
  void evict_layer(std::size_t index) const;
  void evict_attention(std::size_t index) const;
  void evict_embedding() const;

  /// Return upper bounds, in bytes, of the memory of these weights as float32, including the temporary memory
  /// during their conversion. Do not read the weights. `rows` is the number of rows that are looked up in
  /// each embedding table. head_bytes() includes the final norm and the norm of the encoder.
  [[nodiscard]] std::uint64_t layer_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t attention_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t embedding_bytes(std::size_t rows) const;
  [[nodiscard]] std::uint64_t head_bytes() const;

  /// Returns true if W_K equals W_Q in a layer: the checkpoint has no W_K, or both tensors have the same
  /// bytes and the same layout. Ignores biases.
  [[nodiscard]] bool key_is_query(std::size_t index) const;

  /// Returns the first layer that has the same weights as layer `index`; `index` itself if no earlier layer
  /// has.
  [[nodiscard]] std::size_t shared_with(std::size_t index) const;

  [[nodiscard]] std::uint64_t parameters() const;  // number of values in all parameter tensors
  [[nodiscard]] std::size_t unused_tensors() const;
  /// Returns the use of each tensor of the checkpoint, in the order of source().weights->tensors().
  [[nodiscard]] std::span<const TensorUse> tensor_uses() const;

 private:
  struct Shared;
  Model(std::shared_ptr<const ModelConfig> config, std::shared_ptr<Shared> shared);

  std::shared_ptr<const ModelConfig> config_;
  std::shared_ptr<Shared> shared_;
};

/// The sizes of a single attention layer with W_q, W_k, W_v and W_o, and the seed of its weights.
struct RandomLayer {
  std::size_t d_model = 64;
  std::size_t heads = 4;  // must divide d_model
  std::uint64_t seed = 0;
};

/// Returns a model with one layer whose weights are independent normal numbers with standard deviation 1 /
/// sqrt(d_model). With this deviation, inputs of variance 1 give queries, keys and values of variance 1.
/// `warnings` must outlive the model.
[[nodiscard]] Model random_layer(const RandomLayer& sizes, Warnings& warnings);

}  // namespace attnctl::model
