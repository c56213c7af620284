#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "analysis/mixing/rollout.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/observer.hpp"

namespace attnctl {

/// The longest sequence of which flows are computed: one maximum flow for each pair of positions.
inline constexpr std::size_t largest_flow = 128;

/// Throws Error(limit) for a sequence longer than that.
void require_flow_length(const Sequence& sequence);

/// Maximum flows through layers of arcs: layers[l](u, v) is the capacity, at least 0 and at most 1, from node
/// u above the layer to node v below it. Result [from, n]: from node from[r] above the last layer to each
/// node below the first one, each flow alone in the graph. Capacities count in whole units of 2^-50, so that
/// flows are exact in them, whatever the order of work. NaN where a capacity is not finite.
[[nodiscard]] OwnedMatrix<double> layered_flows(std::span<const OwnedMatrix<double>> layers,
                                                std::span<const std::size_t> from, Pool& pool);

/// Attention flow (Abnar and Zuidema 2020): the maximum flow from positions of the last layer to each input
/// token through the layers' A' of rollout (residual included) as capacities, 0..1. Not divided by its sum
/// over tokens.
///
/// The pass must show every head of every layer. Keeps a matrix [n, n] for each layer and sequence.
class AttentionFlow final : public Observer {
 public:
  explicit AttentionFlow(RolloutOptions options = {});
  ~AttentionFlow() override;

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  /// Throws Error(limit) for a sequence longer than largest_flow, Error(bad_input) where queries and keys are
  /// not the same tokens.
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// [from, n] of each sequence; from: the positions of each sequence that flows start at. Once, after the
  /// pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish(std::span<const std::vector<std::size_t>> from,
                                                        Pool& pool);

 private:
  struct State;
  RolloutOptions options_;
  std::vector<std::unique_ptr<State>> states_;  // [sequences]
};

}  // namespace attnctl
