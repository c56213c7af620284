#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/pool.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// Relative change |y_r - y|_F / |y|_F of the output y = z W_O (without b_O) of a layer for one input, if
/// W_O is reduced to rank r by its SVD. nullopt if y is zero or not finite.
struct OutputRankChange {
  std::size_t rank = 0;
  std::optional<double> change;
};

struct LayerOutputRank {
  std::size_t input = 0;  // index in the batch
  std::size_t layer = 0;
  std::size_t full_rank = 0;  // the smaller dimension of W_O
  std::vector<OutputRankChange> cuts;
  /// |z - y|_F / |y|_F: the change if W_O is removed, so that the output is the concatenation of the heads.
  /// nullopt if the widths differ.
  std::optional<double> removed;
};

/// Computes the changes for the selected layers. The pass must show every head of these layers. Layers
/// without W_V or W_O have no record. If W_O is not finite, its changes are undefined. The work is O(d^3)
/// per layer.
class OutputRank final : public Observer {
 public:
  /// Decomposes the layers on the pool when the pass begins.
  ///
  /// @param ranks  ranks to reduce W_O to; empty: 1, 2, 4, ... below the full rank of each layer
  OutputRank(const Selection& selection, std::vector<std::size_t> ranks, Pool& pool);
  ~OutputRank() override;

  [[nodiscard]] Needs needs() const override {
    return {.patterns = false, .z = true, .output = true, .stream = true};
  }
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void panel(const AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;

  /// Returns the changes sorted by input, then layer. Call once, after the pass.
  [[nodiscard]] std::vector<LayerOutputRank> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl
