#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/mixing/rollout.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"

namespace attnctl::analysis {

/// Maximum number of positions of a sequence for attention flow, which computes one maximum flow per start
/// position and input token.
inline constexpr std::size_t largest_flow = 128;

/// Throws Error(limit) if the sequence is longer than largest_flow.
void require_flow_length(const input::Sequence& sequence);

/// Returns maximum flows through a layered graph, [from, n]. Each layer l connects n nodes above it with n
/// nodes below it; layers[l](u, v) in [0, 1] is the capacity of the arc from node u above to node v below.
/// Entry (i, v) of the result is the maximum flow from node from[i] above the last layer to node v below the
/// first layer. Each flow is computed on its own, with all capacities available. Capacities are rounded to
/// multiples of 2^-50, so flows are exact and do not depend on the number of threads. All flows are NaN if a
/// capacity is not finite.
[[nodiscard]] OwnedMatrix<double> layered_flows(std::span<const OwnedMatrix<double>> layers,
                                                std::span<const std::size_t> from, Pool& pool);

/// Attention flow (Abnar and Zuidema 2020): the maximum flow from positions of the last layer to each input
/// token. The capacities of each layer are the entries of A', in [0, 1] (see RolloutOptions). Flows are not
/// normalised over tokens.
///
/// The pass must include every head of every layer. Keeps one [n, n] matrix per layer and sequence.
class AttentionFlow final : public FusedLayers {
 public:
  explicit AttentionFlow(const RolloutOptions& options = {}) : FusedLayers(options, "flow") {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  /// Throws Error(limit) if a sequence is longer than largest_flow, and Error(bad_input) if an input has
  /// separate keys.
  void begin(const model::Model& model, const input::Batch& batch) override;

  /// Returns the flows [from, n] of each sequence. Call once, after the pass.
  ///
  /// @param from  start positions of the flows, for each sequence
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish(std::span<const std::vector<std::size_t>> from,
                                                        Pool& pool);

 private:
  void add_layer(std::size_t sequence, OwnedMatrix<double>& fused) override;

  std::vector<std::vector<OwnedMatrix<double>>> layers_;  // [sequences]: A', lowest layer first
};

}  // namespace attnctl::analysis
