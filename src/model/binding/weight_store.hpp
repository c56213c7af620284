#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "model/binding/binding.hpp"
#include "model/weights.hpp"

namespace attnctl {

/// Owners of the memory that a set of views points to.
using Owners = std::vector<std::shared_ptr<const void>>;

/// Tensors of a checkpoint as float32: views if stored so, otherwise converted. Each is read once as long as
/// an owner exists. The first use of a tensor warns of values that are not finite (`non_finite_weight`).
/// Callers hold mutex().
class TensorCache {
 public:
  struct Values {
    std::span<const float> values;
    std::shared_ptr<const void> owner;
  };
  struct Table {
    LookupTable table;
    std::shared_ptr<const void> owner;
  };

  TensorCache(Checkpoint& weights, Warnings& warnings) : weights_(weights), warnings_(warnings) {}

  /// Converts on the pool if there is one.
  [[nodiscard]] Values values(std::size_t tensor, Pool* pool);
  /// Returns a projection of rank 3 [heads, in, k] as [in, heads * k].
  [[nodiscard]] Values heads_last(const BoundMatrix& bound, Pool* pool);
  /// Frees the table's memory after checking it, because few rows are looked up.
  [[nodiscard]] Table table(std::size_t tensor);

  /// Guards the cache and the checkpoint. Recursive, because owners that expire while it is held lock it.
  [[nodiscard]] std::recursive_mutex& mutex() { return mutex_; }

 private:
  struct Loan;
  struct Floats;

  std::shared_ptr<const Loan> borrow(std::size_t tensor);
  void warn(std::size_t tensor, const TensorView& view, std::size_t count);

  std::recursive_mutex mutex_;
  Checkpoint& weights_;
  Warnings& warnings_;
  std::map<std::size_t, std::size_t> loan_counts_;          // by tensor
  std::map<std::size_t, std::weak_ptr<const Loan>> loans_;  // by tensor
  std::map<std::size_t, std::weak_ptr<const Floats>> converted_;
  std::map<std::size_t, std::weak_ptr<const Floats>> rearranged_;
  std::set<std::size_t> checked_;
};

/// Elements of a tensor that are converted before their pages of the mapped file are freed.
inline constexpr std::size_t kPieceElements = std::size_t{1} << 22U;

/// The weights of a model, read on first use and cached until evicted. Safe to use from several threads; a
/// pool must not be in use by another thread.
class WeightStore {
 public:
  WeightStore(Checkpoint& weights, Binding binding, Warnings& warnings);

  [[nodiscard]] const Binding& binding() const { return binding_; }

  [[nodiscard]] Lease<LayerWeights> layer(const ModelConfig& config, std::size_t index, Pool* pool);
  [[nodiscard]] Lease<AttentionWeights> attention(const ModelConfig& config, std::size_t index, Pool* pool);
  [[nodiscard]] Lease<EmbeddingWeights> embedding();
  [[nodiscard]] Lease<EmbeddingWeights> target_embedding();
  [[nodiscard]] Lease<NormWeights> encoder_norm();
  [[nodiscard]] Lease<NormWeights> final_norm();
  [[nodiscard]] Lease<HeadWeights> head(Pool* pool);

  void evict_layer(LayerConfig::Key key);
  void evict_attention(LayerConfig::Key key);
  void evict_embedding();

  /// Returns true if both weights hold the same bytes in the same layout.
  [[nodiscard]] bool same_bytes(const BoundMatrix& a, const BoundMatrix& b);

 private:
  template <typename Weights, typename Read>
  Lease<Weights> cached(Lease<Weights>& slot, Pool* pool, const Read& read);

  Checkpoint& weights_;
  Binding binding_;
  TensorCache tensors_;
  std::map<LayerConfig::Key, Lease<LayerWeights>> layers_;  // by LayerConfig::stored()
  std::map<LayerConfig::Key, Lease<AttentionWeights>> attentions_;
  Lease<EmbeddingWeights> embedding_, target_embedding_;
  Lease<NormWeights> encoder_norm_, final_norm_;
  Lease<HeadWeights> head_;
};

/// Upper bound of the memory for parts of a model as float32, computed before anything is read: each tensor
/// once, copies of slices that are not contiguous, and the temporary memory of the largest conversion.
class WeightBytes {
 public:
  explicit WeightBytes(const Checkpoint& weights) : weights_(weights) {}

  WeightBytes& add(const BoundLinear& linear);
  WeightBytes& add(const BoundNorm& norm);
  WeightBytes& add(const BoundMlp& mlp);
  WeightBytes& add_attention(const BoundLayer& layer);
  WeightBytes& add_layer(const BoundLayer& layer);
  /// Adds a table. The pass looks up no more than `rows` rows of it.
  WeightBytes& add_table(std::size_t tensor, std::size_t rows);

  [[nodiscard]] std::uint64_t total() const { return kept_ + conversion_; }

 private:
  void add(const BoundMatrix& matrix);
  void add(const BoundVector& vector);
  void add_tensor(std::size_t tensor);

  const Checkpoint& weights_;
  std::set<std::size_t> tensors_;
  std::uint64_t kept_ = 0;
  std::uint64_t conversion_ = 0;
};

}  // namespace attnctl
