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

namespace attnctl {

struct FamilySpec;
struct ModelSource;  // checkpoint/source.hpp

/// The use of a checkpoint's tensor.
enum class TensorRole {
  parameter,  // the model computes with it
  tied,       // a stored copy of a parameter
  buffer,     // position ids, causal masks, rotary frequencies, integers: not trained
  unused      // trained, but no part of the model: poolers, heads of other tasks
};

struct TensorUse {
  TensorRole role = TensorRole::unused;
  std::size_t copy_of = Checkpoint::npos;  // index of the parameter if tied
};

/// A checkpoint bound to its configuration: every tensor that the configuration needs exists with the right
/// shape. A model never changes; copies share weights. Safe to use from several threads.
class Model {
 public:
  /// Reads the configuration and binds the weights, which `source` must have. Throws Error(bad_input) for a
  /// wrong configuration (with the JSON pointer), or with all missing and misshapen tensors in one message.
  /// Adds the warning head_from_embedding; the first use of a tensor may add non_finite_weight. `warnings`
  /// must outlive the model.
  [[nodiscard]] static Model bind(ModelSource source, Warnings& warnings);
  /// Binds with another row or configuration than the source's own.
  [[nodiscard]] static Model bind(ModelSource source, const FamilySpec& row, ModelConfig config,
                                  Warnings& warnings);

  [[nodiscard]] const ModelConfig& config() const { return *config_; }
  [[nodiscard]] const ModelSource& source() const;
  [[nodiscard]] const std::string& name() const;  // the MODEL argument, for messages

  /// Returns this model with another kind of attention in some layers. Both share the weights.
  [[nodiscard]] Model with_attention(AttentionKind kind, std::span<const std::size_t> layers) const;

  /// Weights as float32: views of the mapped file if stored so, otherwise converted on first use, on `pool`
  /// if given. They stay cached until evicted. Layers that share weights get the same object.
  [[nodiscard]] Lease<LayerWeights> layer(std::size_t index, Pool* pool = nullptr) const;
  /// Reads only the attention of a layer.
  [[nodiscard]] Lease<AttentionWeights> attention(std::size_t index, Pool* pool = nullptr) const;
  [[nodiscard]] Lease<EmbeddingWeights> embedding() const;
  [[nodiscard]] Lease<EmbeddingWeights> target_embedding() const;  // of an encoder-decoder model's decoder
  [[nodiscard]] Lease<HeadWeights> head(Pool* pool = nullptr) const;
  [[nodiscard]] NormWeights encoder_norm() const;  // never evicted
  [[nodiscard]] NormWeights final_norm() const;    // never evicted

  /// Remove weights from the cache. Their memory, including pages of the mapped file, is freed once no lease
  /// and no other cached part needs it. Later calls read them again.
  void evict_layer(std::size_t index) const;
  void evict_attention(std::size_t index) const;
  void evict_embedding() const;

  /// Upper bounds in bytes for these weights as float32, including the peak while they are converted. Nothing
  /// is read. `rows` is the number of rows looked up in each table.
  [[nodiscard]] std::uint64_t layer_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t attention_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t embedding_bytes(std::size_t rows) const;
  [[nodiscard]] std::uint64_t head_bytes() const;

  /// Returns true if W_K equals W_Q: W_K is missing, or both hold the same bytes in the same layout. Ignores
  /// biases.
  [[nodiscard]] bool key_is_query(std::size_t index) const;

  /// Returns the first layer with the same weights, possibly `index` itself.
  [[nodiscard]] std::size_t shared_with(std::size_t index) const;

  [[nodiscard]] std::uint64_t parameters() const;  // values of all parameter tensors
  [[nodiscard]] std::size_t unused_tensors() const;
  /// Returns the use of each of source().weights->tensors().
  [[nodiscard]] std::span<const TensorUse> tensor_uses() const;

 private:
  struct Shared;
  Model(std::shared_ptr<const ModelConfig> config, std::shared_ptr<Shared> shared);

  std::shared_ptr<const ModelConfig> config_;
  std::shared_ptr<Shared> shared_;
};

/// Sizes of a bare attention layer with W_q, W_k, W_v and W_o.
struct RandomLayer {
  std::size_t d_model = 64;
  std::size_t heads = 4;  // divides d_model
  std::uint64_t seed = 0;
};

/// Returns the layer with independent normal weights of standard deviation 1 / sqrt(d_model), so that an
/// input of unit variance gives queries, keys and values of unit variance. `warnings` must outlive it.
[[nodiscard]] Model random_layer(const RandomLayer& sizes, Warnings& warnings);

}  // namespace attnctl
