#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// Element-wise function that combines the patterns of a layer's heads into one.
enum class HeadFusion { mean, max, min };

/// Options of rollout and flow. F [n, n] is the combined pattern of all heads of a layer, and I is the
/// identity. A' = (1 - residual) F + residual I, with each row divided by its sum. A row whose sum is 0
/// becomes a row of the identity.
struct RolloutOptions {
  HeadFusion fusion = HeadFusion::mean;
  double residual = 0.5;  // weight of the residual stream, in [0, 1]
};

/// Replaces the combined pattern F by A' (see RolloutOptions).
void add_residual(OwnedMatrix<double>& fused, double residual);

/// Throws Error(bad_input) if an input has separate keys (Sequence::key_embeddings). `analysis` is the name
/// of the analysis in the error.
void require_own_keys(const input::Batch& batch, std::string_view analysis);

/// Base class of observers that use the combined pattern F of each layer (see RolloutOptions). The pass must
/// include every head of every layer (Selection::all), even if the user selected fewer. The heads of a layer
/// may arrive in parallel. A layer is complete when the first panel of the next layer arrives. Sums over
/// heads are exact, so results do not depend on the number of threads.
class FusedLayers : public forward::Observer {
 public:
  /// Throws Error(bad_input) if an input has separate keys.
  void begin(const model::Model& model, const input::Batch& batch) override;
  void panel(const forward::AttentionPanel& panel) override;

 protected:
  /// @param analysis  name of the analysis in errors
  FusedLayers(const RolloutOptions& options, std::string_view analysis)
      : options_(options), analysis_(analysis) {}
  /// Receives F [n, n] of a layer for one sequence, from the lowest layer to the highest. May change F.
  virtual void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) = 0;
  /// Calls add_layer for the last layer of every sequence.
  void finish_layers();

  RolloutOptions options_;

 private:
  static constexpr std::size_t kRowsOfLock = 64;

  /// The combined pattern F (see RolloutOptions) of the current layer of one sequence, from the heads that
  /// have arrived. For HeadFusion::mean, it is their sum until close() divides it. `layer_lock` guards
  /// `layer`; each of `row_locks` guards kRowsOfLock rows of `fused`.
  struct Fusion {
    Fusion(std::size_t n, double value) : fused(n, n), row_locks((n + kRowsOfLock - 1) / kRowsOfLock) {
      std::ranges::fill(fused.values(), value);
    }

    OwnedMatrix<double> fused;
    std::size_t layer = 0;
    std::mutex layer_lock;
    std::vector<std::mutex> row_locks;
  };

  /// Calls add_layer for the current layer, then resets F for the next layer.
  void close(std::size_t sequence);
  void join(std::span<const float> weights, forward::KeyRange keys, std::span<double> to) const;

  std::string_view analysis_;
  std::vector<std::size_t> heads_;                // [layers]
  std::vector<std::unique_ptr<Fusion>> fusions_;  // [sequences]
};

/// Attention rollout (Abnar and Zuidema 2020): R_l = A'_l R_(l-1), where R_(-1) = I (A' is defined at
/// RolloutOptions). Entry (i, j) of the last R estimates how much of input token j reaches position i of the
/// last layer. The estimate assumes that the residual connection and the feed-forward block act on each token
/// separately. Rows sum to 1. Keeps three float64 [n, n] matrices per sequence.
class Rollout final : public FusedLayers {
 public:
  explicit Rollout(const RolloutOptions& options = {}) : FusedLayers(options, "rollout") {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& model, const input::Batch& batch) override;

  /// Returns the rollout [n, n] of each sequence. Call once, after the pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish();
  /// Returns F of the last layer, [n, n] for each sequence. Call once, after finish().
  [[nodiscard]] std::vector<OwnedMatrix<double>> take_last_layer() { return std::move(last_layer_); }

 private:
  void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) override;

  std::vector<OwnedMatrix<double>> rolled_;      // [sequences]: rollout up to the last completed layer
  std::vector<OwnedMatrix<double>> last_layer_;  // [sequences]: F of the last layer
};

}  // namespace attnctl::analysis
