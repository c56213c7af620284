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

namespace attnctl::analysis {

/// The contribution of one head to the attention output of its layer, for one input. Compares the output of
/// the head, w = z W_O^h [n, d], with t, the sum of the outputs of all heads of the layer. w_i and t_i are
/// the rows of position i. b_O is excluded from w and t. If the layer has no W_O, the output is the
/// concatenation of the heads, and W_O is taken as the identity. A value is nullopt if its divisor is 0.
/// Values that depend on a number that is not finite can be NaN.
struct HeadContribution {
  std::size_t input = 0;  // index in the batch
  model::HeadId head;
  std::uint64_t rows = 0;             // number of positions that can attend to at least one key
  std::optional<double> norm;         // mean |w_i| over those positions
  std::optional<double> norm_share;   // sum |w_i| / (the same sum over all heads); sums to 1 over the heads
  std::optional<double> cosine;       // <w, t> / (|w| |t|), with w and t as one vector over all positions
  std::optional<double> share;        // <w, t> / |t|^2; sums to 1 over the heads, can be negative
  std::optional<double> explained;    // 1 - |t - w|^2 / |t|^2, at most 1
  std::optional<double> whole_norm;   // mean |t_i| over all positions
  std::optional<double> stream_norm;  // mean |x_i| over all positions; x: the stream before t is added
};

/// Computes the contributions of the selected heads. The pass must include every head of the selected
/// layers. Layers without W_V have no contributions. z is float32; sums over z are in float64.
class Contributions final : public LayerWritesObserver {
 public:
  explicit Contributions(const forward::Selection& selection)
      : LayerWritesObserver(selection), heads_(selection.heads) {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override {
    const std::uint64_t found = batch.sequences.size() * heads_.size() * 2 * sizeof(HeadContribution);
    return found + writes_bytes(model, batch, layers_, {.of_heads = 2, .of_stream = 2, .of_output = 2});
  }
  void begin(const model::Model& model, const input::Batch& batch) override {
    LayerWritesObserver::begin(model, batch);
    seen_.assign(batch.sequences.size(), {});
    stream_.assign(batch.sequences.size(), 0);
  }

  /// Returns the contributions sorted by input, then in selection order. Call once, after the pass.
  [[nodiscard]] std::vector<HeadContribution> finish() { return take_values(found_); }

 private:
  void add_stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void add_panel(const forward::AttentionPanel& panel) override;
  void add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                 MatrixView<const float> output) override;

  std::vector<model::HeadId> heads_;
  /// [sequences]: for each head, the number of positions that can attend to a key.
  std::vector<std::map<model::HeadId, std::uint64_t>> seen_;
  std::vector<double> stream_;              // [sequences]: sum of |x_i| in the current layer
  std::optional<std::size_t> layer_;        // layer of grams_
  std::vector<OwnedMatrix<double>> grams_;  // [heads of the layer]: W_O^h W_O^h^T
  std::map<std::pair<std::size_t, model::HeadId>, HeadContribution> found_;
};

/// The relative change |y_r - y|_F / |y|_F of the output y = z W_O (without b_O) of a layer, for one input.
/// y_r is the output if W_O is replaced by its best approximation of rank r, from its SVD. `change` is
/// nullopt if y is zero, and NaN if W_O or z is not finite.
struct OutputRankChange {
  std::size_t rank = 0;
  std::optional<double> change;
};

/// The changes of the output of one layer for one input, one per rank.
struct LayerOutputRank {
  std::size_t input = 0;  // index in the batch
  std::size_t layer = 0;
  std::size_t full_rank = 0;  // the smaller dimension of W_O
  std::vector<OutputRankChange> cuts;
  /// |z - y|_F / |y|_F: the relative change if W_O is replaced by the identity, so that the output is z, the
  /// concatenation of the heads. nullopt if z and y have different widths or if y is zero.
  std::optional<double> removed;
};

/// Computes LayerOutputRank of the selected layers. Layers without W_V or W_O have no record. begin()
/// computes the SVD of each distinct W_O on the pool, in O(d^3) time.
class OutputRank final : public LayerWritesObserver {
 public:
  /// @param ranks  ranks to reduce W_O to; empty: the powers of two below the full rank of each layer
  OutputRank(const forward::Selection& selection, std::vector<std::size_t> ranks, Pool& pool)
      : LayerWritesObserver(selection), ranks_(std::move(ranks)), pool_(pool) {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override {
    return writes_bytes(model, batch, layers_, {.of_heads = 2, .of_stream = 0, .of_output = 6});
  }
  void begin(const model::Model& model, const input::Batch& batch) override;

  /// Returns the changes sorted by input, then layer. Call once, after the pass.
  [[nodiscard]] std::vector<LayerOutputRank> finish() { return take_values(found_); }

 private:
  void add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                 MatrixView<const float> output) override;

  std::vector<std::size_t> ranks_;
  Pool& pool_;
  // [layer]; layers that share weights use the first of them
  std::map<std::size_t, linalg::ProductSvd> decomposed_;
  std::map<std::pair<std::size_t, std::size_t>, LayerOutputRank> found_;
};

}  // namespace attnctl::analysis
