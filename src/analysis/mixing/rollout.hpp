#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl {

/// Element-wise function that combines the patterns of a layer's heads into one.
enum class HeadFusion { mean, max, min };

/// Options of rollout. A' of a layer = (1 - residual) F + residual I, with each row divided by its sum. F
/// combines all heads of the layer. A row with no weight at all becomes a row of the identity.
struct RolloutOptions {
  HeadFusion fusion = HeadFusion::mean;
  double residual = 0.5;  // 0..1
};

/// Combines the heads of each layer of one sequence from their panels. Heads of a layer can arrive in
/// parallel. A layer must be complete before the next one starts; the first panel of the next layer
/// completes it.
class LayerFusion {
 public:
  /// Receives the combined pattern [n, n] of each layer, lowest layer first.
  using Complete = std::function<void(OwnedMatrix<double>& fused)>;

  LayerFusion(std::size_t n, const ModelConfig& config, HeadFusion fusion, Complete complete);

  void add(const AttentionPanel& panel);
  /// Completes the last layer.
  void finish();

 private:
  void enter(std::size_t panel_layer);
  void close();
  void join(std::span<const float> weights, KeyRange keys, std::span<double> to) const;

  HeadFusion fusion_;
  Complete complete_;
  OwnedMatrix<double> fused_;
  std::size_t layer_ = 0;
  std::vector<std::size_t> heads_;  // [layers]
  std::mutex layer_lock_;
  std::vector<std::mutex> row_locks_;
};

/// Replaces a combined pattern F by A' (see RolloutOptions).
void add_residual(OwnedMatrix<double>& fused, double residual);

/// Throws Error(bad_input) if queries and keys of an input are different tokens.
void require_own_keys(const Batch& batch, std::string_view analysis);

/// Attention rollout (Abnar and Zuidema 2020): R_l = A'_l R_(l-1), R_(-1) = I. Row i of the result says how
/// much of each input token reaches position i of the last layer, if residual and feed-forward parts act on
/// each token separately. Rows sum to 1.
///
/// The pass must show every head of every layer (Selection::all), even if the user selected fewer. Sums over
/// heads are exact, so results do not depend on the number of threads. Keeps three [n, n] matrices per
/// sequence in double.
class Rollout final : public Observer {
 public:
  explicit Rollout(RolloutOptions options = {});
  ~Rollout() override;

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  /// Throws Error(bad_input) if queries and keys are different tokens.
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// Returns the rollout [n, n] of each sequence. Call once, after the pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish();
  /// Returns the combined heads F of the last layer, [n, n] for each sequence. Call once, after finish().
  [[nodiscard]] std::vector<OwnedMatrix<double>> take_last_layer();

 private:
  struct State;
  RolloutOptions options_;
  std::vector<std::unique_ptr<State>> states_;  // [sequences]
};

}  // namespace attnctl
