#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// Options of analyze_weights and analyze_subspaces.
struct WeightsOptions {
  bool across_layers = false;  // compare all selected heads instead of only heads of the same layer
  bool fold_norm = false;      // see circuit_factors
  // Only for analyze_weights:
  std::size_t directions = 0;  // maximum number of principal directions per circuit of a head
  /// Release the weights of each layer before the next layer is read. Ignored if across_layers is true.
  bool streamed = false;
};

/// The two circuits of a head (Elhage et al. 2021): QK = W_Q W_K^T for scores, OV = W_V W_O for outputs.
enum class Circuit { qk, ov };

[[nodiscard]] inline std::string_view name_of(Circuit circuit) {
  return circuit == Circuit::qk ? "qk" : "ov";
}

/// One factor of a circuit (W_Q, W_K, W_V or W_O^T) for all heads of a layer. The factor of one head is a
/// slice [dimension, width] of a weight of the checkpoint. Several heads can use the same slice: of W_K and
/// W_V if they share a key/value head, and also of W_Q if their weights are tied. If the weight is stored as
/// a product of two matrices A B, the slices are computed in double when they are read.
class CircuitFactor {
 public:
  /// Returns the factor whose slices are ranges of outputs of `weight` (W_Q, W_K or W_V).
  ///
  /// @param slices  [heads], index of the slice of each head; empty: one slice per head
  static CircuitFactor of_outputs(const model::Linear& weight, std::size_t width,
                                  std::vector<std::size_t> slices) {
    return {weight.last(), weight.first, model::Orientation::out_in, width, std::move(slices)};
  }
  /// Returns the factor whose slices are ranges of inputs of `weight` (W_O), transposed: [d_out, v].
  static CircuitFactor of_inputs(const model::Linear& weight, std::size_t width) {
    if (!weight.factorised()) return {weight.last(), {}, model::Orientation::in_out, width, {}};
    return {weight.first, weight.last(), model::Orientation::in_out, width, {}};
  }

  /// Sets the gain: row r of every slice is multiplied by gain[r] when the slice is read. Empty: no gain.
  void fold(std::span<const float> gain) {
    if (!gain.empty() && gain.size() != dimension())
      throw std::logic_error("the size of a norm's gain is not the input size of the weights");
    gain_.assign(gain.begin(), gain.end());
  }

  [[nodiscard]] std::size_t dimension() const {
    if (other_.data != nullptr) return other_by_rows_ ? other_.cols : other_.rows;
    return inner_dimension();
  }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t slice_of(std::size_t head) const {
    return slices_.empty() ? head : slices_[head];
  }

  /// Writes the transposed slice of a head, with the gain, in double to `buffer` and returns its view [width,
  /// dimension].
  MatrixView<double> read_columns(std::size_t head, OwnedMatrix<double>& buffer) const;
  [[nodiscard]] OwnedMatrix<double> columns(std::size_t head) const {
    OwnedMatrix<double> columns;
    read_columns(head, columns);
    return columns;
  }

  /// Returns `count` adjacent slices, starting with the slice of `head`, as the checkpoint stores them and
  /// without the gain. The shape is [dimension, count * width], or [count * width, dimension] if by_rows().
  /// If the weight is stored as a product of two matrices, the slices are those of one of these matrices, and
  /// the inner dimension of the product replaces `dimension`.
  [[nodiscard]] MatrixView<const float> stored(std::size_t head, std::size_t count = 1) const {
    const std::size_t first = slice_of(head) * width_;
    return by_rows_ ? stored_.row_range(first, count * width_) : stored_.col_range(first, count * width_);
  }
  [[nodiscard]] bool by_rows() const { return by_rows_; }
  /// Returns whether stored() returns the complete slices: no gain is set, and the weight is one matrix.
  [[nodiscard]] bool in_place() const { return gain_.empty() && other_.data == nullptr; }

 private:
  /// `by_rows` is the orientation in which slices are ranges of rows.
  CircuitFactor(const model::StoredMatrix& sliced, const model::StoredMatrix& other,
                model::Orientation by_rows, std::size_t width, std::vector<std::size_t> slices)
      : stored_(sliced.values),
        by_rows_(sliced.orientation == by_rows),
        width_(width),
        slices_(std::move(slices)),
        other_(other.values),
        other_by_rows_(other.orientation == by_rows) {}

  [[nodiscard]] std::size_t inner_dimension() const { return by_rows_ ? stored_.cols : stored_.rows; }
  /// Writes the transposed slice of a head, taken from stored_, to `out` [width, inner dimension].
  void read_stored(std::size_t head, MatrixView<double> out) const;

  MatrixView<const float> stored_;  // [inner dimension, slices width], or its transpose
  bool by_rows_ = false;            // stored_ is transposed: a slice is a range of rows
  std::size_t width_ = 0;
  std::vector<std::size_t> slices_;  // [heads]: index of the slice; empty: one slice per head
  /// The second matrix of a weight that is stored as a product: [dimension, rank], or its transpose.
  MatrixView<const float> other_;
  bool other_by_rows_ = false;  // other_ is transposed
  std::vector<double> gain_;    // [dimension]; empty: no gain
};

/// The QK or OV circuits of all heads of a layer, as two factors. The circuit of head h is left_h right_h^T:
/// QK = W_Q W_K^T [d, kdim] or OV = W_V W_O [vdim, d_out]. kdim and vdim are the input dimensions of W_K and
/// W_V. They can differ from d only if keys and values come from another input.
struct CircuitFactors {
  CircuitFactor left;
  CircuitFactor right;

  [[nodiscard]] static std::size_t slice_of(std::size_t head) { return head; }
};

/// The four projections of a head. W_Q, W_K and W_V read the input of the attention; W_O writes its output.
enum class Projection { query, key, value, output };
inline constexpr std::array kAllProjections{Projection::query, Projection::key, Projection::value,
                                            Projection::output};

[[nodiscard]] inline std::string_view name_of(Projection projection) {
  constexpr std::array<std::string_view, kAllProjections.size()> names{"w_q", "w_k", "w_v", "w_o"};
  return names.at(static_cast<std::size_t>(projection));
}

/// The extents of a projection of one head: the slice of CircuitFactor is [dimension, width].
struct ProjectionShape {
  std::size_t dimension = 0;
  std::size_t width = 0;
};

/// Returns the shape of a projection, without reading weights, or nullopt if the layer does not have it.
[[nodiscard]] std::optional<ProjectionShape> projection_shape(const model::ModelConfig& config,
                                                              std::size_t layer, Projection projection);

/// Returns one projection of all heads of a layer, or nullopt if the layer does not have it. See
/// circuit_factors for `fold_norm`.
[[nodiscard]] std::optional<CircuitFactor> projection_factor(const model::Model& model, std::size_t layer,
                                                             Projection projection, bool fold_norm);

/// Returns the circuits of all heads of a layer. The result refers to weights in memory; it is valid until
/// the model evicts them (Model::evict_layer). Returns nullopt for OV if the layer has no W_V or no W_O.
///
/// If `fold_norm` is true, the gain of the last norm before the layer's attention is multiplied into the rows
/// of W_Q, W_K and W_V. These weights then apply to the normalised stream before its gain. In a pre-norm
/// layer, this norm is the layer's own norm. In a post-norm layer, it is the last norm of the layer below. If
/// the first layer of a stack has no norm before its attention, it is the norm of the embeddings (BERT).
/// W_K and W_V of cross-attention get the gain of the last norm of the encoder. Nothing is folded if this
/// norm does not exist, if the model normalises only outputs (NormPlace::output), or if a projection follows
/// the norm (layer 0 of ALBERT). Biases of norms are ignored.
[[nodiscard]] std::optional<CircuitFactors> circuit_factors(const model::Model& model, std::size_t layer,
                                                            Circuit circuit, bool fold_norm);

/// Returns the gain that circuit_factors multiplies into W_Q if `fold_norm` is true, and into W_K and W_V
/// except in cross-attention. Empty if there is none.
[[nodiscard]] std::span<const float> folded_gain(const model::Model& model, std::size_t layer);

/// Returns the full circuit matrix of a head, [dimension of left, dimension of right].
[[nodiscard]] OwnedMatrix<double> form_circuit(const CircuitFactors& factors, std::size_t head);

/// The factors (CircuitFactor or CircuitFactors) of the selected heads. Heads and layers with the same
/// weights share one item, so that each item is computed once.
template <typename Factors>
struct SharedFactors {
  struct Item {
    const Factors* factors = nullptr;
    std::size_t head = 0;  // one of the heads that share the item
  };
  /// Key: the first layer with the same weights, and the folded gain.
  std::map<std::pair<std::size_t, const float*>, Factors> factors;
  std::vector<Item> items;
  std::vector<std::size_t> item_of_head;  // [selected heads]: index into `items`
};

/// Returns the factors of the selected heads, or nullopt if read(layer) returns nullopt for a selected layer.
/// Heads of a layer with the same slice_of() share an item.
template <typename Factors>
[[nodiscard]] std::optional<SharedFactors<Factors>> share_factors(
    const model::Model& model, const forward::Selection& selection, bool fold_norm,
    const std::function<std::optional<Factors>(std::size_t layer)>& read) {
  SharedFactors<Factors> shared;
  std::map<std::pair<const Factors*, std::size_t>, std::size_t> known;
  for (const model::HeadId id : selection.heads) {
    const std::pair source(model.shared_with(id.layer),
                           fold_norm ? folded_gain(model, id.layer).data() : nullptr);
    auto found = shared.factors.find(source);
    if (found == shared.factors.end()) {
      auto factors = read(id.layer);
      if (!factors) return std::nullopt;
      found = shared.factors.emplace(source, std::move(*factors)).first;
    }
    const Factors* const factors = &found->second;
    const auto [entry, is_new] =
        known.emplace(std::pair(factors, factors->slice_of(id.head)), shared.items.size());
    if (is_new) shared.items.push_back({factors, id.head});
    shared.item_of_head.push_back(entry->second);
  }
  return shared;
}

/// Heads that are compared with each other, and the items of SharedFactors that they use.
struct HeadGroup {
  std::optional<std::size_t> layer;  // nullopt: heads of all selected layers
  std::span<const model::HeadId> heads;
  std::vector<std::size_t> items;  // indices of the items, each once
  std::vector<std::size_t> place;  // [heads]: index into `items`
  std::size_t same = 0;  // index of the first group with these items and places: layers can share weights
};

/// Groups the heads by layer, or in one group if `across_layers` is true. `item_of_head` is
/// SharedFactors::item_of_head.
[[nodiscard]] std::vector<HeadGroup> group_heads(const std::vector<model::HeadId>& heads,
                                                 std::span<const std::size_t> item_of_head,
                                                 bool across_layers);

}  // namespace attnctl::analysis
