#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/mixing/layer_writes.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "linalg/decompositions.hpp"

namespace attnctl {

/// The contribution of a head to the output of its layer for one input. Compares its write w = z W_O^h [n, d]
/// with the whole write t, the sum over all heads of the layer. b_O belongs to no head and is in neither of
/// them. Without W_O, the output is the concatenation of the heads and W_O counts as the identity. A value
/// is undefined (nullopt) if a divisor is 0 or a term is not finite.
struct HeadContribution {
  std::size_t input = 0;  // index in the batch
  HeadId head;
  std::uint64_t rows = 0;             // number of positions that see a key
  std::optional<double> norm;         // mean |w_i| over those positions
  std::optional<double> norm_share;   // sum |w_i| / sum over all heads; sums to 1 over the heads
  std::optional<double> cosine;       // <w, t> / (|w| |t|), over all positions together
  std::optional<double> share;        // <w, t> / |t|^2; sums to 1 over the heads, can be negative
  std::optional<double> explained;    // 1 - |t - w|^2 / |t|^2, at most 1
  std::optional<double> whole_norm;   // mean |t_i|
  std::optional<double> stream_norm;  // mean |x_i| of the residual stream before the output is added
};

/// Computes the contributions of the selected heads. Layers without W_V have no contributions. Sums of the
/// float32 z are in float64.
class Contributions final : public LayerWritesObserver {
 public:
  explicit Contributions(const Selection& selection)
      : LayerWritesObserver(selection), heads_(selection.heads) {}

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void panel(const AttentionPanel& panel) override;

  /// Returns the contributions sorted by input, then in selection order. Call once, after the pass.
  [[nodiscard]] std::vector<HeadContribution> finish() { return take_values(found_); }

 private:
  void add_layer(std::size_t sequence, std::size_t layer, const OwnedMatrix<double>& z,
                 MatrixView<const float> output) override;

  std::vector<HeadId> heads_;
  std::vector<std::map<HeadId, std::uint64_t>> seen_;  // [sequences]: positions that see a key, per head
  std::vector<double> stream_;                         // [sequences]: sum of |x_i| in the current layer
  std::optional<std::size_t> layer_;                   // whose matrices are kept
  OwnedMatrix<double> output_;                         // W_O
  std::vector<OwnedMatrix<double>> grams_;             // [heads of the layer]: W_O^h W_O^h^T
  std::map<std::pair<std::size_t, HeadId>, HeadContribution> found_;
};

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

/// Computes the changes for the selected layers. Layers without W_V or W_O have no record. If W_O is not
/// finite, its changes are undefined. The work is O(d^3) per layer.
class OutputRank final : public LayerWritesObserver {
 public:
  /// Decomposes the layers on the pool when the pass begins.
  ///
  /// @param ranks  ranks to reduce W_O to; empty: 1, 2, 4, ... below the full rank of each layer
  OutputRank(const Selection& selection, std::vector<std::size_t> ranks, Pool& pool)
      : LayerWritesObserver(selection), ranks_(std::move(ranks)), pool_(pool) {}

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;

  /// Returns the changes sorted by input, then layer. Call once, after the pass.
  [[nodiscard]] std::vector<LayerOutputRank> finish() { return take_values(found_); }

 private:
  void add_layer(std::size_t sequence, std::size_t layer, const OwnedMatrix<double>& z,
                 MatrixView<const float> output) override;

  std::vector<std::size_t> ranks_;
  Pool& pool_;
  std::map<std::size_t, ProductSvd> decomposed_;  // by layer; shared weights: by the first layer
  std::map<std::pair<std::size_t, std::size_t>, LayerOutputRank> found_;
};

}  // namespace attnctl
