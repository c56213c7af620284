#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/weights/circuit.hpp"
#include "base/dtype.hpp"
#include "base/numbers.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

// What changed in the weights from a model a to a model b of the same shape: in each head, and in each
// weight.
namespace attnctl::analysis {

/// How numbers of model b differ from those of model a. `rounding`: no number differs by more than rounding
/// to nearest can change it, to the precision with which the two models store it: float32, float16, bfloat16,
/// or blocks of 16 or more values on a grid of at most 255 steps.
/// `moved`, of a head: it has the weights of a head with another place in model a, up to rounding.
/// `changed_role`, of a head: `changed`, and a study found a role of it in only one of the models.
enum class ChangeStatus : std::uint8_t { identical, rounding, changed, moved, changed_role };
[[nodiscard]] std::string_view name_of(ChangeStatus status);

/// The change of a matrix from A to B: 2 |B - A| / (|A| + |B|) with Frobenius norms, in [0, 2]. It is the
/// same from B to A. Undefined if both matrices are 0, or if a weight is NaN or infinite.
struct CircuitChange {
  double change = kUndefined;
  /// The same formula for the vectors of the singular values, in descending order: 0 if B is A rotated.
  double spectrum = kUndefined;
  std::optional<double> rank_a, rank_b;  // effective ranks
};

struct ProjectionChange {
  double change = kUndefined;                 // as CircuitChange::change, of the head's part of the weight
  std::optional<std::size_t> rank_a, rank_b;  // numerical ranks: the dimensions of the two subspaces
  std::vector<double> angles = {};  // the principal angles between the subspaces, in radians, ascending
};

/// A head of model a, and the head of model b with which it is compared.
struct HeadChange {
  model::HeadId head, other;
  ChangeStatus status = ChangeStatus::identical;  // of its parts of W_Q, W_K, W_V, W_O and their biases
  CircuitChange qk;
  std::optional<CircuitChange> ov;
  std::array<std::optional<ProjectionChange>, kAllProjections.size()> projections = {};
};

/// A weight: a matrix [in, out], a table [rows, width] or a vector.
struct WeightChange {
  std::string name;                  // "query", "mlp.up.bias", "token embedding"
  std::optional<std::size_t> layer;  // nullopt: the weight belongs to no layer
  Shape shape;
  ChangeStatus status = ChangeStatus::identical;
  double change = 0;           // as CircuitChange::change
  double largest = 0;          // largest |b - a|
  std::uint64_t elements = 0;  // number of elements that differ
  /// The rank of B - A, if status is `changed` and what exceeds this rank is rounding; nullopt if B - A has
  /// many dimensions, or for vectors and tables.
  std::optional<std::size_t> rank;
};

struct ModelChanges {
  std::vector<HeadChange> heads;      // in the order of the selection
  std::vector<WeightChange> weights;  // in the order of the model
};

/// The largest rank of B - A that is found. Updates by LoRA have ranks up to 64.
inline constexpr std::size_t kLargestLowRank = 96;

/// Returns the first difference between the layers, heads and widths of two models, such as "numbers of
/// layers: 4 and 3"; nullopt if they have the same shape.
[[nodiscard]] std::optional<std::string> shape_difference(const model::Model& a, const model::Model& b);

/// Compares the weights of two models. Heads are compared in the layout of their dimensions that
/// RotaryPairing::half has: each selected head of a with the head of b that has the same place in `partners`,
/// or with that of the same name if `partners` is empty. Reads one layer at a time and releases it. Throws
/// Error(bad_input) if the models do not have the same shape.
[[nodiscard]] ModelChanges compare_weights(const model::Model& a, const model::Model& b,
                                           const forward::Selection& selection, Pool& pool,
                                           std::span<const model::HeadId> partners = {});

}  // namespace attnctl::analysis
