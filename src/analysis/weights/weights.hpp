#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "analysis/similarity/subspace_similarity.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/error.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// The singular values and ranks of one circuit (QK or OV) of one head.
struct HeadSpectrum {
  model::HeadId head;
  bool finite = true;  // false: a weight of the head is NaN or infinite
  /// [r], descending, where r is the smallest of the two dimensions and the width of the circuit's factors.
  /// Empty if not `finite`.
  std::vector<double> singular_values;
  std::optional<double> effective_rank;
  std::optional<double> stable_rank;
  std::optional<std::size_t> numerical_rank;
  /// The first t left singular vectors, [t, dimension of left], t <= directions. Empty if the circuit is zero
  /// or not finite.
  OwnedMatrix<float> left;
  OwnedMatrix<float> right;  // the first t right singular vectors, [t, dimension of right]
};

struct CircuitAnalysis {
  Circuit circuit = Circuit::qk;
  std::vector<HeadSpectrum> heads;     // in selection order
  std::vector<HeadMatrix> similarity;  // Frobenius cosines: one per layer, or one for all selected heads
};

struct WeightsAnalysis {
  CircuitAnalysis qk;
  std::optional<CircuitAnalysis> ov;  // nullopt if a selected layer has no W_V or no W_O

  [[nodiscard]] std::vector<const CircuitAnalysis*> circuits() const {
    if (!ov) return {&qk};
    return {&qk, &*ov};
  }
};

/// Computes the singular values, ranks and similarities of the circuits of the selected heads (definitions in
/// docs/metrics.md). No d x d matrix is formed. If the circuit of a head is zero or has a weight that is not
/// finite, its ranks (except the numerical rank 0 of a zero circuit) and similarities are undefined; the
/// warning `undefined_circuit` counts these circuits.
[[nodiscard]] WeightsAnalysis analyze_weights(const model::Model& model, const forward::Selection& selection,
                                              const WeightsOptions& options, Pool& pool, Warnings& warnings);

}  // namespace attnctl::analysis
