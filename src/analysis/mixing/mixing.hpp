#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/mixing/layer_writes.hpp"
#include "base/matrix_view.hpp"
#include "forward/observer.hpp"

namespace attnctl::analysis {

/// The norms of the two parts of one position after an attention block (see Mixing).
struct PositionMixing {
  double mix = 0;   // |mix_i|: the part from all other positions
  double keep = 0;  // |keep_i|: the residual stream and the attention of the position to itself

  /// In [0, 1]; nullopt if both norms are 0, NaN if a norm is NaN.
  [[nodiscard]] std::optional<double> ratio() const {
    return mix + keep == 0 ? std::nullopt : std::optional(mix / (mix + keep));
  }
};

struct LayerMixing {
  std::size_t input = 0;  // index in the batch
  std::size_t layer = 0;
  std::vector<PositionMixing> positions;  // [n]
};

/// Mixing ratio (Kobayashi et al. 2021) of the selected layers. alpha_ij is the attention weight of query i
/// on key j in head h, and f_h(x) = (x W_V^h + b_V^h) W_O^h:
///    mix_i = sum_h sum_(j != i) alpha_ij f_h(x_j),   keep_i = x_i + sum_h alpha_ii f_h(x_i)
/// The first x_i in keep_i is the residual stream; f_h is applied to the input of the attention, which is
/// normalised in a pre-norm model. In a post-norm model (BERT), mix_i and keep_i pass through the linear part
/// of the norm after the sum, g(u) = (u - mean u) / s gain (RMS norm: u / s gain), where s is the deviation
/// (RMS norm: the root mean square) of the row that the model normalises. In a pre-norm model (GPT-2, LLaMA),
/// no norm follows the sum. b_O and the bias of the norm belong to no position and are excluded.
///
/// The pass must include every head of the selected layers. Layers without W_V have no record.
class Mixing final : public LayerWritesObserver {
 public:
  using LayerWritesObserver::LayerWritesObserver;

  [[nodiscard]] forward::Needs needs() const override {
    return {.values = true, .z = true, .output = true, .stream = true};
  }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override {
    return writes_bytes(model, batch, layers_, {.of_heads = 2, .of_stream = 3, .of_output = 1});
  }
  /// Throws Error(bad_input) if an input has separate keys, if the attention output does not have the width
  /// of the stream, or if a layer normalises or scales this output before it adds it to the stream.
  void begin(const model::Model& model, const input::Batch& batch) override;

  /// Returns the records sorted by input, then layer. Call once, after the pass.
  [[nodiscard]] std::vector<LayerMixing> finish() { return take_values(found_); }

 private:
  void add_stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    own_[sequence] = empty_z(layer, values.rows);
    stream_[sequence] = widened(values);
  }
  void add_panel(const forward::AttentionPanel& panel) override;
  void add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                 MatrixView<const float> output) override;

  std::vector<OwnedMatrix<double>> own_;     // [sequences]: alpha_ii v_i of all heads, in the shape of z
  std::vector<OwnedMatrix<double>> stream_;  // [sequences], of the current layer
  std::map<std::pair<std::size_t, std::size_t>, LayerMixing> found_;
};

}  // namespace attnctl::analysis
