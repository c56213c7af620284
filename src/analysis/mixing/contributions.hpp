#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "linalg/decompositions.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// Computes the norms |v_j W_O^h| of the value vectors v_j = x_j W_V^h + b_V^h of one head h, without b_O. If
/// the layer has no W_O, the norms are |v_j|.
class ValueNorms {
 public:
  /// `model` must outlive the object.
  ValueNorms(const model::Model& model, model::HeadId head) : model_(&model), head_(head) {}

  /// Computes |v_j W_O^h| for each row v_j of `values` [m, v], the values of one sequence.
  void compute(MatrixView<const float> values);
  /// Returns the norms [m] of the last sequence.
  [[nodiscard]] std::span<double> norms() { return norms_; }

 private:
  const model::Model* model_;
  model::HeadId head_;
  std::optional<OwnedMatrix<double>> gram_;  // W_O^h W_O^h^T; nullopt until the first use; empty without W_O
  std::vector<double> norms_;                // [m]
};

/// The Gram matrices G = W_O^h W_O^h^T [v, v] of heads, each computed when it is first used. The norm of what
/// a head writes is |z W_O^h| = sqrt(z G z^T).
class OutputGrams {
 public:
  /// @param heads  ascending, without duplicates
  explicit OutputGrams(std::span<const model::HeadId> heads)
      : heads_(heads.begin(), heads.end()), grams_(heads.size()) {}

  /// Returns |z_i W_O^h| [n] for each row z_i of `z` [n, v], without b_O. If the layer has no W_O, returns
  /// |z_i|. `index` is the index of the head in `heads`. May be called from several threads, always with the
  /// same model.
  [[nodiscard]] std::vector<double> write_norms(const model::Model& model, std::size_t index,
                                                MatrixView<const float> z);

 private:
  struct Gram {
    std::once_flag computed;
    OwnedMatrix<double> matrix;  // empty without W_O
  };

  std::vector<model::HeadId> heads_;
  std::vector<Gram> grams_;  // [heads]
};

/// Returns the memory, in bytes, of one ValueNorms per head with the norms of the longest input.
[[nodiscard]] std::uint64_t value_norms_bytes(const model::Model& model, const input::Batch& batch,
                                              std::span<const model::HeadId> heads);

/// Base class of observers that need the outputs z of all heads of a selected layer at once. The pass must
/// include every head of the selected layers.
class LayerWritesObserver : public forward::Observer {
 public:
  [[nodiscard]] forward::Needs needs() const override {
    return {.patterns = false, .z = true, .output = true, .stream = true};
  }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
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
  /// Number of float64 matrices that the observer keeps: `of_heads` matrices [n, heads v] and `of_stream`
  /// matrices [n, d_model] for all inputs, and `of_output` copies of W_O for each layer.
  struct Kept {
    std::uint64_t of_heads = 0, of_stream = 0, of_output = 0;
  };
  LayerWritesObserver(const forward::Selection& selection, const Kept& kept)
      : layers_(selection.layers()), kept_(kept) {}

  /// Receive the arguments of stream() and panel() for the selected layers, except panels without z.
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

  Kept kept_;
  std::vector<OwnedMatrix<double>> z_;  // [sequences], of the current layer
  std::optional<std::size_t> output_layer_;
  OwnedMatrix<double> output_;  // W_O of output_layer_
};

/// Moves the values out of a map, in ascending order of the keys.
template <typename Key, typename Found>
[[nodiscard]] std::vector<Found> take_values(std::map<Key, Found>& found) {
  std::vector<Found> values;
  for (auto& [key, value] : std::exchange(found, {})) values.push_back(std::move(value));
  return values;
}

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

/// Computes the contributions of the selected heads, in float64 from float32 z. Layers without W_V have none.
class Contributions final : public LayerWritesObserver {
 public:
  explicit Contributions(const forward::Selection& selection)
      : LayerWritesObserver(selection, {.of_heads = 2, .of_stream = 2, .of_output = 2}),
        heads_(selection.heads) {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override {
    const std::uint64_t found = batch.sequences.size() * heads_.size() * 2 * sizeof(HeadContribution);
    return found + LayerWritesObserver::memory(model, batch);
  }
  void begin(const model::Model& model, const input::Batch& batch) override {
    LayerWritesObserver::begin(model, batch);
    rows_.assign(batch.sequences.size(), {});
    stream_.assign(batch.sequences.size(), {});
  }

  /// Returns the contributions sorted by input, then in selection order. Call once, after the pass.
  [[nodiscard]] std::vector<HeadContribution> finish() { return take_values(found_); }

 private:
  void add_stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void add_panel(const forward::AttentionPanel& panel) override;
  void add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                 MatrixView<const float> output) override;

  std::vector<model::HeadId> heads_;
  /// [sequences], for each head the number of positions that can attend to at least one key.
  std::vector<std::map<model::HeadId, std::uint64_t>> rows_;
  std::vector<std::vector<double>> stream_;  // [sequences][n]: |x_i| in the current layer
  std::optional<std::size_t> layer_;         // layer of grams_
  std::vector<OwnedMatrix<double>> grams_;   // [heads of the layer]: W_O^h W_O^h^T
  std::map<std::pair<std::size_t, model::HeadId>, HeadContribution> found_;
};

/// How much one head writes, for one input: |w_i| / |x_i|, where w_i = z_i W_O^h (without b_O) is what the
/// head writes at position i, and x_i is the residual stream to which the layer adds its attention output.
struct HeadWriteRatio {
  std::size_t input = 0;  // index in the batch
  model::HeadId head;
  /// Number of positions that can attend to at least one key and whose x_i is not 0; 0 without values (W_V).
  std::uint64_t positions = 0;
  double sum = 0;  // of |w_i| / |x_i| over these positions; not finite if a number of the pass is not

  [[nodiscard]] std::optional<double> mean() const {
    return positions == 0 ? std::nullopt : std::optional(sum / static_cast<double>(positions));
  }
};

/// Computes a HeadWriteRatio of each selected head and input, in float64 from float32 z and x.
class WriteRatios final : public forward::Observer {
 public:
  /// @param grams  those of the heads of `selection`, which observers of one model may share; null: new ones
  explicit WriteRatios(const forward::Selection& selection, std::shared_ptr<OutputGrams> grams = nullptr)
      : heads_(selection.heads),
        grams_(grams ? std::move(grams) : std::make_shared<OutputGrams>(selection.heads)) {}

  [[nodiscard]] forward::Needs needs() const override {
    return {.patterns = false, .z = true, .stream = true};
  }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& model, const input::Batch& batch) override;
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void panel(const forward::AttentionPanel& panel) override;

  /// Returns the results sorted by input, then in selection order. Call once, after the pass.
  [[nodiscard]] std::vector<HeadWriteRatio> finish() { return std::exchange(found_, {}); }

 private:
  std::vector<model::HeadId> heads_;
  std::shared_ptr<OutputGrams> grams_;
  const model::Model* model_ = nullptr;
  std::vector<std::vector<double>> stream_;  // [sequences][n]: |x_i| in the current layer
  std::vector<HeadWriteRatio> found_;        // [inputs, heads]
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
      : LayerWritesObserver(selection, {.of_heads = 2, .of_output = 6}),
        ranks_(std::move(ranks)),
        pool_(pool) {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& model, const input::Batch& batch) override;

  /// Returns the changes sorted by input, then layer. Call once, after the pass.
  [[nodiscard]] std::vector<LayerOutputRank> finish() { return take_values(found_); }

 private:
  void add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                 MatrixView<const float> output) override;

  std::vector<std::size_t> ranks_;
  Pool& pool_;
  /// Key: layer; of layers that share weights, the first. Value: the SVD of W_O.
  std::map<std::size_t, linalg::ProductSvd> decomposed_;
  std::map<std::pair<std::size_t, std::size_t>, LayerOutputRank> found_;
};

/// The norms of the two parts of one position after an attention block (see Mixing).
struct PositionMixing {
  double mix = 0;   // |mix_i|: the part from all other positions
  double keep = 0;  // |keep_i|: the residual stream and the attention of the position to itself

  /// Returns the mixing ratio, in [0, 1]; nullopt if both norms are 0, NaN if a norm is NaN.
  [[nodiscard]] std::optional<double> ratio() const {
    return mix + keep == 0 ? std::nullopt : std::optional(mix / (mix + keep));
  }
};

/// The mixing of one layer for one input.
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
/// Layers without W_V have no record.
class Mixing final : public LayerWritesObserver {
 public:
  explicit Mixing(const forward::Selection& selection)
      : LayerWritesObserver(selection, {.of_heads = 2, .of_stream = 3, .of_output = 1}) {}

  [[nodiscard]] forward::Needs needs() const override {
    return {.values = true, .z = true, .output = true, .stream = true};
  }
  /// Throws Error(bad_input) if an input has separate keys, if the attention output does not have the width
  /// of the stream, or if a layer normalises or scales this output before it adds it to the stream.
  void begin(const model::Model& model, const input::Batch& batch) override;

  /// Returns the records sorted by input, then layer. Call once, after the pass.
  [[nodiscard]] std::vector<LayerMixing> finish() { return take_values(found_); }

 private:
  void add_stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void add_panel(const forward::AttentionPanel& panel) override;
  void add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                 MatrixView<const float> output) override;

  std::vector<OwnedMatrix<double>> own_;     // [sequences]: alpha_ii v_i of all heads, in the shape of z
  std::vector<OwnedMatrix<double>> stream_;  // [sequences], of the current layer
  std::map<std::pair<std::size_t, std::size_t>, LayerMixing> found_;
};

}  // namespace attnctl::analysis
