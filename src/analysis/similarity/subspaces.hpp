#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "analysis/similarity/subspace_similarity.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl {

/// What one projection of a head spans: the column space of W_Q, W_K or W_V, the row space of W_O.
struct ProjectionSpectrum {
  HeadId head;
  std::vector<double> singular_values;  // descending; empty: undefined
  std::optional<double> effective_rank;
  std::optional<std::size_t> rank;  // numerical: the dimensions of the subspace
};

/// Mean and deviation of a measure of random subspaces or weights of the same sizes.
struct RandomNull {
  double mean = 0;
  double deviation = 0;
};

/// Of |U_a^T U_b|_F^2 / sqrt(r_a r_b), U_a and U_b independent uniform subspaces of r_a and r_b of d
/// dimensions: mean sqrt(r_a r_b) / d, variance 2 (d - r_a) (d - r_b) / (d^2 (d - 1) (d + 2)). d at least 2.
[[nodiscard]] RandomNull projection_kernel_null(std::size_t dimension, std::size_t rank_a,
                                                std::size_t rank_b);

/// How the subspaces of heads of one layer, or of all selected ones, lie to each other.
struct SubspaceAngles {
  std::optional<std::size_t> layer;  // nullopt: across layers
  std::vector<HeadId> heads;
  std::vector<std::optional<std::size_t>> ranks;  // [heads]
  std::size_t dimension = 0;                      // of the space that they lie in
  OwnedMatrix<double> kernel;  // [heads, heads], in [0, 1]: |U_a^T U_b|_F^2 / sqrt(r_a r_b); NaN: undefined
  /// Cosines of the principal angles of each pair, descending: [heads, heads, angles]; a pair has as many as
  /// the smaller of its two ranks, the rest are NaN.
  std::vector<double> cosines;
  std::size_t angles = 0;  // the largest rank
  OffDiagonal off_diagonal;
  std::optional<RandomNull> null;  // of a pair, over the same pairs; nullopt where there is none

  [[nodiscard]] std::span<const double> cosines_of(std::size_t a, std::size_t b) const {
    return std::span(cosines).subspan((a * heads.size() + b) * angles, angles);
  }
};

struct ProjectionAnalysis {
  Projection projection = Projection::query;
  std::vector<ProjectionSpectrum> heads;  // as selected
  std::vector<SubspaceAngles> angles;
};

struct SubspacesOptions {
  bool across_layers = false;
  bool fold_norm = false;
};

/// Effective ranks of the selected heads' projections and the angles between their subspaces (definitions in
/// docs/metrics.md), for each projection that all selected layers have. Heads that share a key/value head
/// have the same subspace. A projection that is all zero or holds a value that is not finite is undefined and
/// counted: warning `undefined_projection`.
[[nodiscard]] std::vector<ProjectionAnalysis> analyze_subspaces(const Model& model,
                                                                const Selection& selection,
                                                                const SubspacesOptions& options, Pool& pool,
                                                                Warnings& warnings);

}  // namespace attnctl
