#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Element-wise function that combines the patterns of a layer's heads into one.
enum class HeadFusion { mean, max, min };

/// Options of rollout. A' of a layer = (1 - residual) F + residual I, with each row divided by its sum. F
/// combines all heads of the layer. A row with no weight at all becomes a row of the identity.
struct RolloutOptions {
  HeadFusion fusion = HeadFusion::mean;
  double residual = 0.5;  // 0..1
};

/// Replaces a combined pattern F by A' (see RolloutOptions).
void add_residual(OwnedMatrix<double>& fused, double residual);

/// Throws Error(bad_input) if queries and keys of an input are different tokens.
void require_own_keys(const Batch& batch, std::string_view analysis);

/// Base of observers of the combined heads of each layer. The pass must show every head of every layer
/// (Selection::all), even if the user selected fewer. Heads of a layer can arrive in parallel; the first
/// panel of the next layer completes a layer. Sums over heads are exact, so results do not depend on the
/// number of threads.
class FusedLayers : public Observer {
 public:
  ~FusedLayers() override;

  /// Throws Error(bad_input) if queries and keys are different tokens.
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

 protected:
  FusedLayers(const RolloutOptions& options, std::string_view analysis);
  /// Receives the combined heads F [n, n] of a layer of one sequence, lowest layer first. May change them.
  virtual void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) = 0;
  /// Completes the last layer of every sequence.
  void finish_layers();

  RolloutOptions options_;

 private:
  /// The combined heads of the current layer of one sequence.
  struct Fusion;

  /// Passes the finished layer on and clears it for the next one.
  void close(std::size_t sequence);
  void join(std::span<const float> weights, KeyRange keys, std::span<double> to) const;

  std::string_view analysis_;
  std::vector<std::size_t> heads_;                // [layers]
  std::vector<std::unique_ptr<Fusion>> fusions_;  // [sequences]
};

/// Attention rollout (Abnar and Zuidema 2020): R_l = A'_l R_(l-1), R_(-1) = I. Row i of the result says how
/// much of each input token reaches position i of the last layer, if residual and feed-forward parts act on
/// each token separately. Rows sum to 1. Keeps three [n, n] matrices per sequence in double.
class Rollout final : public FusedLayers {
 public:
  explicit Rollout(const RolloutOptions& options = {}) : FusedLayers(options, "rollout") {}

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;

  /// Returns the rollout [n, n] of each sequence. Call once, after the pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish();
  /// Returns the combined heads F of the last layer, [n, n] for each sequence. Call once, after finish().
  [[nodiscard]] std::vector<OwnedMatrix<double>> take_last_layer() { return std::move(last_layer_); }

 private:
  void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) override;

  std::vector<OwnedMatrix<double>> rolled_;      // [sequences]: rollout of the layers below
  std::vector<OwnedMatrix<double>> last_layer_;  // [sequences]
};

}  // namespace attnctl
