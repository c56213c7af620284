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

/// The two bilinear maps of a head (Elhage et al. 2021). QK determines the attention scores, OV the output.
enum class Circuit { qk, ov };

/// Returns "qk" or "ov".
[[nodiscard]] std::string_view name_of(Circuit circuit);

/// One side of a circuit for all heads of a layer, with one slice [dimension, width] per head, read in place
/// from the checkpoint. Heads that share a key/value head, or are tied, share its slice. Slices of a
/// factorised projection A B are computed in double when they are read.
class CircuitFactor {
 public:
  /// Returns slices along the outputs of `weight` (W_Q, W_K, W_V).
  ///
  /// @param slices  [heads], the slice that each head reads
  static CircuitFactor of_outputs(const Linear& weight, std::size_t width, std::vector<std::size_t> slices);
  /// Returns transposed slices along the inputs of `weight` (W_O^T [d_out, v] for each head).
  static CircuitFactor of_inputs(const Linear& weight, std::size_t width);

  /// Multiplies row r of every slice by gain[r]. An empty gain means 1.
  void fold(std::span<const float> gain);

  [[nodiscard]] std::size_t dimension() const {
    if (other_.data != nullptr) return other_by_rows_ ? other_.cols : other_.rows;
    return inner_dimension();
  }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t slice_of(std::size_t head) const {
    return slices_.empty() ? head : slices_[head];
  }

  /// Writes the transposed slice of a head in double to `out` [width, dimension].
  void read_columns(std::size_t head, MatrixView<double> out) const;
  /// Returns the transposed slice of a head in double, [width, dimension].
  [[nodiscard]] OwnedMatrix<double> columns(std::size_t head) const;

  /// Returns `count` slices, from the slice of `head` on, as the model stores them, without the gain:
  /// [dimension, count width], or the transpose if by_rows().
  [[nodiscard]] MatrixView<const float> stored(std::size_t head, std::size_t count = 1) const;
  [[nodiscard]] bool by_rows() const { return by_rows_; }
  /// Checks whether the model stores the slices directly: no gain is folded in, no factorised projection.
  [[nodiscard]] bool in_place() const { return gain_.empty() && other_.data == nullptr; }

 private:
  CircuitFactor(const StoredMatrix& sliced, bool by_rows, std::size_t width, std::vector<std::size_t> slices)
      : stored_(sliced.values), by_rows_(by_rows), width_(width), slices_(std::move(slices)) {}

  [[nodiscard]] std::size_t inner_dimension() const { return by_rows_ ? stored_.cols : stored_.rows; }
  /// Writes the transposed slice of stored_ to `out` [width, inner dimension].
  void read_stored(std::size_t head, MatrixView<double> out) const;

  MatrixView<const float> stored_;  // [inner dimension, slices width], or its transpose
  bool by_rows_ = false;            // stored_ is transposed: a slice is a range of rows
  std::size_t width_ = 0;
  std::vector<std::size_t> slices_;  // [heads]; empty: one slice per head
  MatrixView<const float>
      other_;                   // second factor [dimension, rank] or its transpose; empty unless factorised
  bool other_by_rows_ = false;  // other_ is transposed
  std::vector<double> gain_;    // [dimension]; empty: 1
};

/// A circuit of every head of a layer, stored as two factors. The circuit of head h is left_h right_h^T,
/// with QK = W_Q W_K^T [d, kdim] and OV = W_V W_O [vdim, d_out].
struct CircuitFactors {
  CircuitFactor left;
  CircuitFactor right;
};

/// The four projections of a head. W_Q, W_K and W_V read from the stream, and W_O writes to it. The subspace
/// of a projection is the column space of W_Q, W_K or W_V, or the row space of W_O.
enum class Projection { query, key, value, output };
inline constexpr std::array kAllProjections{Projection::query, Projection::key, Projection::value,
                                            Projection::output};

/// Returns "w_q", "w_k", "w_v" or "w_o".
[[nodiscard]] std::string_view name_of(Projection projection);

/// Returns a projection of every head of a layer: W_Q, W_K, W_V, or the transposed W_O. nullopt if the
/// checkpoint does not have it. See circuit_factors for `fold_norm`.
[[nodiscard]] std::optional<CircuitFactor> projection_factor(const Model& model, std::size_t layer,
                                                             Projection projection, bool fold_norm);

/// Returns the factors of a layer, which borrow from the model. nullopt for OV if the checkpoint has no W_V
/// or no W_O.
///
/// With `fold_norm`, the gain of the norm that feeds the layer's attention is multiplied into the rows of
/// W_Q, W_K and W_V. They then act on the stream after normalisation and before the gain. In a pre-norm
/// layer, this is the layer's own norm. Otherwise it is the previous norm in the stream: the norm after the
/// MLP of the layer below, or the norm of the embeddings for layer 0 (BERT). Nothing is folded if there is
/// no such norm, or if a projection follows it (ALBERT's layer 0). Biases of norms belong to no circuit. Not
/// thread-safe, like Model::layer.
[[nodiscard]] std::optional<CircuitFactors> circuit_factors(const Model& model, std::size_t layer,
                                                            Circuit circuit, bool fold_norm);

/// Returns the gain that `fold_norm` multiplies in. Empty if there is none.
[[nodiscard]] std::span<const float> folded_gain(const Model& model, std::size_t layer);

/// Returns the circuit of a head, [dimension of left, dimension of right]. The matrix is large.
[[nodiscard]] OwnedMatrix<double> form_circuit(const CircuitFactors& factors, std::size_t head);

}  // namespace attnctl
