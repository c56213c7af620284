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
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// Element-wise function that combines the patterns of a layer's heads into one.
enum class HeadFusion { mean, max, min };

/// Options of rollout and flow. F [n, n] is the combined pattern of all heads of a layer. A' = (1 - residual)
/// F + residual I, with each row divided by its sum. Row i becomes row i of the identity I if its sum is 0.
struct RolloutOptions {
  HeadFusion fusion = HeadFusion::mean;
  double residual = 0.5;  // weight of the residual stream, in [0, 1]
};

/// Replaces the combined pattern F by A' (see RolloutOptions).
void add_residual(OwnedMatrix<double>& fused, double residual);

/// Throws Error(bad_input) if an input has separate keys. The message contains `analysis`.
void require_own_keys(const input::Batch& batch, std::string_view analysis);

/// Returns the bytes of `matrices` float64 matrices [n, n] for each sequence of n positions.
[[nodiscard]] std::uint64_t bytes_of_squares(const input::Batch& batch, std::uint64_t matrices);

/// Base class of observers that use the combined pattern F of each layer (see RolloutOptions). The pass must
/// include every head of every layer (Selection::all), even if the user selected fewer. The heads of a layer
/// may arrive in parallel. A layer is complete when the first panel of the next layer arrives. Weights are
/// rounded to multiples of 2^-40, so that sums over heads are exact in any order.
class FusedLayers : public forward::Observer {
 public:
  /// Throws the error of require_own_keys.
  void begin(const model::Model& model, const input::Batch& batch) override;
  void panel(const forward::AttentionPanel& panel) override;

 protected:
  FusedLayers(const RolloutOptions& options, std::string_view analysis)
      : options_(options), analysis_(analysis) {}
  /// Receives F [n, n] of a layer for one sequence, from the lowest layer to the highest. May change F.
  virtual void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) = 0;
  /// Calls add_layer for the last layer of every sequence.
  void finish_layers() {
    for (std::size_t s = 0; s < fusions_.size(); ++s) close(s);
  }

  RolloutOptions options_;

 private:
  static constexpr std::size_t kRowsOfLock = 64;

  /// F of the current layer of one sequence, from the heads that have arrived. For HeadFusion::mean, it is
  /// the sum of their patterns until close() divides it. `layer_lock` guards `layer`; each of `row_locks`
  /// guards kRowsOfLock rows of `fused`.
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
/// last layer. The estimate uses only the patterns and the residual connections, not the values, the output
/// matrices or the feed-forward blocks. Rows sum to 1.
class Rollout final : public FusedLayers {
 public:
  explicit Rollout(const RolloutOptions& options = {}) : FusedLayers(options, "rollout") {}

  [[nodiscard]] std::uint64_t memory(const model::Model& /*model*/,
                                     const input::Batch& batch) const override {
    return bytes_of_squares(batch, 4);  // F, rollout, next rollout, F of the last layer
  }
  void begin(const model::Model& model, const input::Batch& batch) override;

  /// Returns the rollout [n, n] of each sequence. Call once, after the pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish() {
    finish_layers();
    return std::move(rolled_);
  }
  /// Returns F of the last layer (see RolloutOptions), [n, n] for each sequence. Call once, after finish().
  [[nodiscard]] std::vector<OwnedMatrix<double>> take_last_layer() { return std::move(last_layer_); }

 private:
  void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) override;

  std::vector<OwnedMatrix<double>> rolled_;      // [sequences]: rollout up to the last completed layer
  std::vector<OwnedMatrix<double>> last_layer_;  // [sequences]: F of the last layer
};

/// Maximum number of positions of a sequence for flow, which computes n maximum flows per start position.
inline constexpr std::size_t kLargestFlow = 128;

/// Throws Error(limit) if the sequence has more than kLargestFlow queries.
void require_flow_length(const input::Sequence& sequence);

/// Returns maximum flows through a layered graph, [from, n]. Each layer l connects n nodes above it with n
/// nodes below it; layers[l](u, v) in [0, 1] is the capacity of the arc from node u above to node v below.
/// Entry (i, v) of the result is the maximum flow from node from[i] above the last layer to node v below the
/// first layer, with all capacities available. Capacities are rounded to multiples of 2^-50, so flows are
/// exact and do not depend on the number of threads. All flows are NaN if a capacity is not finite.
[[nodiscard]] OwnedMatrix<double> layered_flows(std::span<const OwnedMatrix<double>> layers,
                                                std::span<const std::size_t> from, Pool& pool);

/// Attention flow (Abnar and Zuidema 2020): the maximum flow from positions of the last layer to each input
/// token. The capacities of each layer are the entries of A', in [0, 1] (see RolloutOptions). Flows are not
/// normalised over tokens. Keeps one [n, n] matrix per layer and sequence.
class AttentionFlow final : public FusedLayers {
 public:
  explicit AttentionFlow(const RolloutOptions& options = {}) : FusedLayers(options, "flow") {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override {
    // A', capacities and residual capacities of each layer.
    return bytes_of_squares(batch, 3 * model.config().layers.size() + 4);
  }
  /// Throws the errors of require_flow_length and require_own_keys.
  void begin(const model::Model& model, const input::Batch& batch) override {
    FusedLayers::begin(model, batch);
    for (const input::Sequence& sequence : batch.sequences) require_flow_length(sequence);
    layers_.assign(batch.sequences.size(), {});
  }

  /// Returns the flows [from, n] of each sequence from its start positions. Call once, after the pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish(std::span<const std::vector<std::size_t>> from,
                                                        Pool& pool);

 private:
  void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) override {
    add_residual(fused, options_.residual);
    layers_[sequence].push_back(fused);
  }

  std::vector<std::vector<OwnedMatrix<double>>> layers_;  // [sequences]: A', lowest layer first
};

}  // namespace attnctl::analysis
