#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/mixing/rollout.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/observer.hpp"

namespace attnctl {

/// Maximum sequence length for flows. A sequence needs one maximum flow per pair of positions.
inline constexpr std::size_t largest_flow = 128;

/// Throws Error(limit) if the sequence is longer than largest_flow.
void require_flow_length(const Sequence& sequence);

/// Returns maximum flows through layers of arcs, [from, n]. layers[l](u, v) is the capacity, 0..1, from node
/// u above the layer to node v below it. Entry (i, v) is the maximum flow from node from[i] above the last
/// layer to node v below the first layer. Each flow is computed separately. Capacities are rounded to
/// multiples of 2^-50, so flows are exact and do not depend on the order of work. A flow is NaN if a
/// capacity is not finite.
[[nodiscard]] OwnedMatrix<double> layered_flows(std::span<const OwnedMatrix<double>> layers,
                                                std::span<const std::size_t> from, Pool& pool);

/// Attention flow (Abnar and Zuidema 2020): the maximum flow from positions of the last layer to each input
/// token. The capacities are the A' of rollout (residual included) of every layer, 0..1. Flows are not
/// normalised over tokens.
///
/// The pass must show every head of every layer. Keeps one [n, n] matrix per layer and sequence.
class AttentionFlow final : public FusedLayers {
 public:
  explicit AttentionFlow(const RolloutOptions& options = {}) : FusedLayers(options, "flow") {}

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  /// Throws Error(limit) if a sequence is longer than largest_flow, and Error(bad_input) if queries and keys
  /// are different tokens.
  void begin(const Model& model, const Batch& batch) override;

  /// Returns the flows [from, n] of each sequence. Call once, after the pass.
  ///
  /// @param from  start positions of the flows, per sequence
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish(std::span<const std::vector<std::size_t>> from,
                                                        Pool& pool);

 private:
  void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) override;

  std::vector<std::vector<OwnedMatrix<double>>> layers_;  // [sequences]: A', lowest layer first
};

}  // namespace attnctl
