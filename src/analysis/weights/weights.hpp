#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "analysis/similarity/subspace_similarity.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl {

struct WeightsOptions {
  bool across_layers = false;  // one similarity matrix over all selected heads instead of one per layer
  bool fold_norm = false;      // see circuit_factors
  std::size_t directions = 0;  // number of principal directions kept per head
  bool streamed = false;       // release the weights of a layer before the next; not with across_layers
};

/// The spectrum of one circuit of one head.
struct HeadSpectrum {
  HeadId head;
  bool finite = true;                   // false: a weight of the head is NaN or infinite
  std::vector<double> singular_values;  // [r], descending, r = min(dimensions, width); empty: undefined
  std::optional<double> effective_rank;
  std::optional<double> stable_rank;
  std::optional<std::size_t> numerical_rank;
  OwnedMatrix<float> left;   // [t, dimension of left]: the first t left singular vectors, t <= directions
  OwnedMatrix<float> right;  // [t, dimension of right]: right singular vectors
};

/// Frobenius cosines between the heads of one layer, or between all selected heads.
struct SubspaceSimilarity : HeadMatrix {
  OffDiagonal off_diagonal;
};

struct CircuitAnalysis {
  Circuit circuit = Circuit::qk;
  std::vector<HeadSpectrum> heads;  // in selection order
  std::vector<SubspaceSimilarity> similarity;
};

struct WeightsAnalysis {
  CircuitAnalysis qk;
  std::optional<CircuitAnalysis> ov;  // nullopt: some selected layer has no W_V or no W_O
};

/// Computes the weights-only analyses of the selected heads (definitions in docs/metrics.md) without forming
/// a d x d matrix. Layers that share weights are computed once and reported for each. A head has undefined
/// results if its factors are all zero or not finite; such heads are counted in the warning
/// `undefined_circuit`.
[[nodiscard]] WeightsAnalysis analyze_weights(const Model& model, const Selection& selection,
                                              const WeightsOptions& options, Pool& pool, Warnings& warnings);

}  // namespace attnctl
