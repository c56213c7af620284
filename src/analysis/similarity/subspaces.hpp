#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "analysis/similarity/subspace_similarity.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/error.hpp"
#include "base/matrix_view.hpp"
#include "base/numbers.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// The singular values of one projection matrix of a head. The subspace of the projection is the column space
/// of W_Q, W_K or W_V, or the row space of W_O.
struct ProjectionSpectrum {
  model::HeadId head;
  std::vector<double> singular_values;  // descending; empty if the projection is zero or not finite
  std::optional<double> effective_rank;
  std::optional<std::size_t> rank;  // numerical rank: the dimension of the subspace
};

/// Mean and standard deviation of a measure between two random subspaces, or two heads with random weights,
/// that have the same shapes as those of the model.
struct RandomNull {
  double mean = kUndefined;
  double deviation = kUndefined;
};

/// Returns the mean and standard deviation of |U_a^T U_b|_F^2 / sqrt(r_a r_b), where U_a and U_b are
/// orthonormal bases of independent, uniformly distributed subspaces of r_a and r_b dimensions in a space of
/// d >= 2 dimensions. The mean is sqrt(r_a r_b) / d. The variance is
/// 2 (d - r_a) (d - r_b) / (d^2 (d - 1) (d + 2)).
[[nodiscard]] RandomNull projection_kernel_null(std::size_t dimension, std::size_t rank_a,
                                                std::size_t rank_b);

/// The angles between the subspaces of the heads of one layer, or of all selected heads. `values` are the
/// kernels |U_a^T U_b|_F^2 / sqrt(r_a r_b) in [0, 1] (see projection_kernel_null).
struct SubspaceAngles : HeadMatrix {
  std::vector<std::optional<std::size_t>> ranks;  // [heads]: dimension of each subspace
  std::size_t dimension = 0;                      // dimension of the space that contains the subspaces
  /// Cosines of the principal angles of each pair of heads, in descending order, [heads, heads, angles]. A
  /// pair has as many angles as the smaller of its two ranks; the remaining entries are NaN.
  std::vector<double> cosines;
  std::size_t angles = 0;  // the largest of `ranks`
  RandomNull null;         // random baseline, averaged over the pairs of different heads

  [[nodiscard]] std::span<const double> cosines_of(std::size_t a, std::size_t b) const {
    return std::span(cosines).subspan((a * heads.size() + b) * angles, angles);
  }
};

struct ProjectionAnalysis {
  Projection projection = Projection::query;
  std::vector<ProjectionSpectrum> heads;  // in selection order
  std::vector<SubspaceAngles> angles;     // one per layer, or one for all selected heads
};

/// Computes the ranks of the projections of the selected heads and the angles between their subspaces
/// (definitions in docs/metrics.md). Skips a projection if a selected layer does not have it. The results of
/// a projection of a head are undefined if all its weights are zero or if a weight is not finite; the warning
/// `undefined_projection` counts these projections.
[[nodiscard]] std::vector<ProjectionAnalysis> analyze_subspaces(const model::Model& model,
                                                                const forward::Selection& selection,
                                                                const WeightsOptions& options, Pool& pool,
                                                                Warnings& warnings);

}  // namespace attnctl::analysis
