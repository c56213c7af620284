#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "model/model.hpp"

namespace attnctl {

/// The two bilinear maps of a head (Elhage et al. 2021): where it looks, and what it moves.
enum class Circuit { qk, ov };

/// "qk", "ov".
[[nodiscard]] std::string_view name_of(Circuit circuit);

/// One side of a circuit for all heads of a layer: a slice [dimension, width] a head, read in place from the
/// checkpoint. Heads that share a key/value head, or are tied, share its slice. A slice of a factorised
/// projection A B is formed in double, for the head that is asked for.
class CircuitFactor {
 public:
  /// Slices side by side along the outputs of `weight`: W_Q, W_K, W_V. `slices` [heads]: the one that each
  /// head reads.
  static CircuitFactor of_outputs(const Linear& weight, std::size_t width, std::vector<std::size_t> slices);
  /// Slices along the inputs of `weight`, transposed: W_O^T [d_out, v] of a head.
  static CircuitFactor of_inputs(const Linear& weight, std::size_t width);

  /// Multiplies row r of every slice by gain[r] from now on; an empty gain is 1.
  void fold(std::span<const float> gain);

  [[nodiscard]] std::size_t dimension() const {
    if (other_.data != nullptr) return other_by_rows_ ? other_.cols : other_.rows;
    return inner_dimension();
  }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t slice_of(std::size_t head) const {
    return slices_.empty() ? head : slices_[head];
  }

  /// The slice of a head in double, given by columns: its transpose to `out` [width, dimension].
  void read_columns(std::size_t head, MatrixView<double> out) const;

  /// `count` slices from that of a head on as the model holds them, without the gain: [dimension, count
  /// width], or by rows the transpose of that.
  [[nodiscard]] MatrixView<const float> stored(std::size_t head, std::size_t count = 1) const;
  [[nodiscard]] bool by_rows() const { return by_rows_; }
  /// The model holds the slices themselves: no gain is folded in, and the projection is not factorised.
  [[nodiscard]] bool in_place() const { return gain_.empty() && other_.data == nullptr; }

 private:
  CircuitFactor(const StoredMatrix& sliced, bool by_rows, std::size_t width, std::vector<std::size_t> slices)
      : stored_(sliced.values), by_rows_(by_rows), width_(width), slices_(std::move(slices)) {}

  [[nodiscard]] std::size_t inner_dimension() const { return by_rows_ ? stored_.cols : stored_.rows; }
  /// A slice of stored_, by columns [width, inner dimension].
  void read_stored(std::size_t head, MatrixView<double> out) const;

  MatrixView<const float> stored_;  // [inner dimension, slices width], or its transpose
  bool by_rows_ = false;            // it is the transpose: a slice is a range of rows
  std::size_t width_ = 0;
  std::vector<std::size_t> slices_;  // [heads] or empty: each head its own
  MatrixView<const float>
      other_;                   // of a factorised projection [dimension, rank], or its transpose; else empty
  bool other_by_rows_ = false;  // it is the transpose
  std::vector<double> gain_;    // [dimension] or empty: 1
};

/// A circuit of every head of a layer, kept as its two factors: circuit of head h = left_h right_h^T, that is
/// QK = W_Q W_K^T [d, kdim] and OV = W_V W_O [vdim, d_out].
struct CircuitFactors {
  CircuitFactor left;
  CircuitFactor right;
};

/// The four projections of a head, whose column spaces are what it looks for, looks at, reads and (rows of
/// W_O) writes.
enum class Projection { query, key, value, output };
inline constexpr std::array all_projections{Projection::query, Projection::key, Projection::value,
                                            Projection::output};

/// "w_q", "w_k", "w_v", "w_o".
[[nodiscard]] std::string_view name_of(Projection projection);

/// A projection of every head of a layer: W_Q, W_K, W_V as they are, W_O transposed. nullopt where the
/// checkpoint has none. `fold_norm` as below.
[[nodiscard]] std::optional<CircuitFactor> projection_factor(const Model& model, std::size_t layer,
                                                             Projection projection, bool fold_norm);

/// The factors of a layer; nullopt where the checkpoint has no W_V or no W_O (OV). Borrow from the model.
///
/// With `fold_norm` the gain of the norm that the layer's attention reads is multiplied
/// into the rows of W_Q, W_K and W_V: what they see of a stream that is normalised but not yet scaled. That
/// is the layer's own norm where norms come before (pre-norm), else the one before it in the stream: the norm
/// after the MLP of the layer below, for layer 0 the norm of the embeddings (BERT). Nothing is folded where
/// there is no such norm, or where a projection stands between (ALBERT's layer 0). Biases of norms belong to
/// no circuit. Not safe from several threads at once, as Model::layer.
[[nodiscard]] std::optional<CircuitFactors> circuit_factors(const Model& model, std::size_t layer,
                                                            Circuit circuit, bool fold_norm);

/// The gain that `fold_norm` multiplies in: empty where nothing is.
[[nodiscard]] std::span<const float> folded_gain(const Model& model, std::size_t layer);
/// The same of the keys and values of cross-attention: that of the norm at the encoder's end.
[[nodiscard]] std::span<const float> memory_gain(const Model& model);

/// The circuit of a head itself, [dimension of left, dimension of right]: large, only on request.
[[nodiscard]] OwnedMatrix<double> form_circuit(const CircuitFactors& factors, std::size_t head);

}  // namespace attnctl
