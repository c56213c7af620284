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

/// What becomes of the output y = z W_O (without b_O) of a layer for one input when W_O is cut to the rank r
/// by its SVD: |y_r - y|_F / |y|_F. nullopt where y is zero or not finite.
struct OutputRankChange {
  std::size_t rank = 0;
  std::optional<double> change;
};

struct LayerOutputRank {
  std::size_t input = 0;  // in the batch
  std::size_t layer = 0;
  std::size_t full_rank = 0;  // the smaller extent of W_O
  std::vector<OutputRankChange> cuts;
  /// |z - y|_F / |y|_F, W_O removed and the heads left side by side; nullopt where that is of another width.
  std::optional<double> removed;
};

/// Computes the changes for the selected layers. The pass must show every head of them. A layer without W_V
/// or W_O has no record; a W_O that is not finite has undefined changes. The work is of order d^3 a layer.
class OutputRank final : public Observer {
 public:
  /// Ranks to cut to; empty: 1, 2, 4, ... below the full rank of each layer. The pool decomposes the layers
  /// when the pass begins.
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

  /// By input, then layer. Once, after the pass.
  [[nodiscard]] std::vector<LayerOutputRank> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl
