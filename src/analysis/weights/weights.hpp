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
  bool across_layers = false;  // one similarity of all selected heads in place of one a layer
  bool fold_norm = false;      // see circuit_factors
  std::size_t directions = 0;  // principal directions kept a head
  bool streamed = false;       // weights of a layer are given back before the next; not across layers
};

/// What one circuit of one head spans.
struct HeadSpectrum {
  HeadId head;
  std::vector<double> singular_values;  // [r] descending, r = min(dimensions, width); empty: undefined
  std::optional<double> effective_rank;
  std::optional<double> stable_rank;
  std::optional<std::size_t> numerical_rank;
  OwnedMatrix<float> left;   // [t, dimension of left]: the first t left singular vectors, as asked for
  OwnedMatrix<float> right;  // [t, dimension of right]
};

/// Frobenius cosines of heads of one layer, or of all selected ones.
struct SubspaceSimilarity {
  std::optional<std::size_t> layer;  // nullopt: across layers
  std::vector<HeadId> heads;
  OwnedMatrix<double> values;  // [heads, heads]; NaN stands for undefined
  OffDiagonal off_diagonal;
};

struct CircuitAnalysis {
  Circuit circuit = Circuit::qk;
  std::vector<HeadSpectrum> heads;  // as selected
  std::vector<SubspaceSimilarity> similarity;
};

struct WeightsAnalysis {
  CircuitAnalysis qk;
  std::optional<CircuitAnalysis> ov;  // nullopt: no layer that was selected has both W_V and W_O
};

/// The weights-only analyses of the selected heads (definitions in docs/metrics.md), no d x d matrix formed.
/// Layers that share weights are computed once and reported for each. A head whose factors are all zero or
/// hold a value that is not finite has undefined results and is counted: warning `undefined_circuit`.
[[nodiscard]] WeightsAnalysis analyze_weights(const Model& model, const Selection& selection,
                                              const WeightsOptions& options, Pool& pool, Warnings& warnings);

}  // namespace attnctl
