#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// Returns the Gram matrix of the rows of W: W W^T. For a row vector x, |x W|^2 = x (W W^T) x^T.
[[nodiscard]] OwnedMatrix<double> gram(MatrixView<const double> w);

/// Returns x G x^T for each row x of `x`, with G = `gram`. Negative results are set to 0.
[[nodiscard]] std::vector<double> squared_norms(MatrixView<const double> x, const OwnedMatrix<double>& gram);

[[nodiscard]] inline double norm(std::span<const double> a) {
  return std::sqrt(dot(a, a));
}

[[nodiscard]] OwnedMatrix<double> widened(MatrixView<const float> values);

/// Computes the norms |v_j W_O^h| of the value vectors v_j = x_j W_V^h + b_V^h of one head h, without b_O. If
/// the layer has no W_O, the norms are |v_j|.
class ValueNorms {
 public:
  ValueNorms() = default;
  ValueNorms(const model::Model& model, model::HeadId head);

  /// Returns the norm for each row v_j of `values` [m, v].
  [[nodiscard]] std::vector<double> of(MatrixView<const float> values);

 private:
  model::Lease<model::AttentionWeights> lease_;  // keeps output_ valid
  model::Linear output_;                         // W_O^h [v, d_out]; not present: the identity
  OwnedMatrix<double> gram_;                     // W_O^h W_O^h^T, computed at the first use
};

/// Returns the memory, in bytes, of one ValueNorms per head, of the norms of the longest input for each head,
/// and of the attention weights of the layers of the heads.
[[nodiscard]] std::uint64_t value_norms_bytes(const model::Model& model, const input::Batch& batch,
                                              std::span<const model::HeadId> heads);

/// Base class of observers that need the outputs z of all heads of a selected layer at once. The pass must
/// include every head of the selected layers.
class LayerWritesObserver : public forward::Observer {
 public:
  explicit LayerWritesObserver(const forward::Selection& selection) : layers_(selection.layers()) {}

  [[nodiscard]] forward::Needs needs() const override {
    return {.patterns = false, .z = true, .output = true, .stream = true};
  }
  void begin(const model::Model& model, const input::Batch& batch) override {
    model_ = &model;
    z_.assign(batch.sequences.size(), {});
  }
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) final {
    if (!is_selected(layer)) return;
    z_[sequence] = empty_z(layer, values.rows);
    add_stream(sequence, layer, values);
  }
  void panel(const forward::AttentionPanel& panel) final;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) final {
    if (!is_selected(layer)) return;
    OwnedMatrix<double> z = std::exchange(z_[sequence], {});
    add_layer(sequence, layer, z, values);
  }

 protected:
  /// Receive the stream and the panels of the selected layers, except panels without z.
  virtual void add_stream(std::size_t /*sequence*/, std::size_t /*layer*/,
                          MatrixView<const float> /*values*/) {}
  virtual void add_panel(const forward::AttentionPanel& /*panel*/) {}
  /// Receives z [n, heads v] of a layer, the outputs of its heads concatenated by columns, and the attention
  /// output of the layer [n, d_out], with b_O. Called from one thread. May change z.
  virtual void add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                         MatrixView<const float> output) = 0;
  [[nodiscard]] const model::AttentionConfig& attention(std::size_t layer) const {
    return model_->config().layers[layer].attention;
  }
  /// Returns W_O of a layer, [heads v, d_out], in double. If the layer has no W_O, returns the identity,
  /// because the output is then the concatenation of the heads.
  [[nodiscard]] const OwnedMatrix<double>& output_matrix(std::size_t layer);
  /// Returns zeros in the shape of z of a layer, for n positions.
  [[nodiscard]] OwnedMatrix<double> empty_z(std::size_t layer, std::size_t n) const {
    return {n, attention(layer).heads * attention(layer).d_value};
  }
  /// Returns the part of z for the queries and the head of a panel: [queries of the panel, v].
  [[nodiscard]] static MatrixView<double> part_of(OwnedMatrix<double>& z,
                                                  const forward::AttentionPanel& panel) {
    return z.view()
        .row_range(panel.first_query, panel.z.rows)
        .col_range(panel.head * panel.z.cols, panel.z.cols);
  }

  std::vector<std::size_t> layers_;
  const model::Model* model_ = nullptr;

 private:
  [[nodiscard]] bool is_selected(std::size_t layer) const {
    return std::ranges::binary_search(layers_, layer);
  }

  std::vector<OwnedMatrix<double>> z_;  // [sequences], of the current layer
  std::optional<std::size_t> output_layer_;
  OwnedMatrix<double> output_;  // W_O of output_layer_
};

/// Number of float64 matrices that an analysis keeps: `of_heads` matrices [n, heads v] and `of_stream`
/// matrices [n, d_model] for all inputs, and `of_output` copies of W_O for each layer. writes_bytes returns
/// their size in bytes, plus the size of the attention weights of the layers.
struct WritesKept {
  std::uint64_t of_heads = 0;
  std::uint64_t of_stream = 0;
  std::uint64_t of_output = 0;
};
[[nodiscard]] std::uint64_t writes_bytes(const model::Model& model, const input::Batch& batch,
                                         std::span<const std::size_t> layers, const WritesKept& kept);

/// Moves the values out of a map, in ascending order of the keys.
template <typename Key, typename Found>
[[nodiscard]] std::vector<Found> take_values(std::map<Key, Found>& found) {
  std::vector<Found> values;
  for (auto& [key, value] : std::exchange(found, {})) values.push_back(std::move(value));
  return values;
}

}  // namespace attnctl::analysis
