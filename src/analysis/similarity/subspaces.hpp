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

/// The spectrum of one projection of a head. Its subspace is the column space of W_Q, W_K or W_V, or the row
/// space of W_O.
struct ProjectionSpectrum {
  HeadId head;
  std::vector<double> singular_values;  // descending; empty: undefined
  std::optional<double> effective_rank;
  std::optional<std::size_t> rank;  // numerical rank: the dimension of the subspace
};

/// Mean and standard deviation of a measure for random subspaces or weights of the same shapes.
struct RandomNull {
  double mean = 0;
  double deviation = 0;
};

/// Returns the null of |U_a^T U_b|_F^2 / sqrt(r_a r_b) for independent uniform subspaces U_a and U_b with
/// r_a and r_b dimensions in a space of d dimensions. The mean is sqrt(r_a r_b) / d, the variance 2 (d -
/// r_a) (d - r_b) / (d^2 (d - 1) (d + 2)). d must be at least 2.
[[nodiscard]] RandomNull projection_kernel_null(std::size_t dimension, std::size_t rank_a,
                                                std::size_t rank_b);

/// The angles between the subspaces of the heads of one layer, or of all selected heads.
struct SubspaceAngles {
  std::optional<std::size_t> layer;  // nullopt: across layers
  std::vector<HeadId> heads;
  std::vector<std::optional<std::size_t>> ranks;  // [heads]
  std::size_t dimension = 0;                      // of the ambient space
  OwnedMatrix<double> kernel;  // [heads, heads], in [0, 1]: |U_a^T U_b|_F^2 / sqrt(r_a r_b); NaN: undefined
  /// Cosines of the principal angles of each pair, descending, [heads, heads, angles]. A pair has as many
  /// angles as its smaller rank; the remaining entries are NaN.
  std::vector<double> cosines;
  std::size_t angles = 0;  // the largest rank
  OffDiagonal off_diagonal;
  std::optional<RandomNull> null;  // null of one pair, over the same pairs; nullopt: no pairs

  [[nodiscard]] std::span<const double> cosines_of(std::size_t a, std::size_t b) const {
    return std::span(cosines).subspan((a * heads.size() + b) * angles, angles);
  }
};

struct ProjectionAnalysis {
  Projection projection = Projection::query;
  std::vector<ProjectionSpectrum> heads;  // in selection order
  std::vector<SubspaceAngles> angles;
};

struct SubspacesOptions {
  bool across_layers = false;
  bool fold_norm = false;
};

/// Computes the effective ranks of the selected heads' projections and the angles between their subspaces
/// (definitions in docs/metrics.md). Covers each projection that all selected layers have. Heads that share
/// a key/value head have the same subspace. A projection is undefined if it is all zero or has a value that
/// is not finite; such projections are counted in the warning `undefined_projection`.
[[nodiscard]] std::vector<ProjectionAnalysis> analyze_subspaces(const Model& model,
                                                                const Selection& selection,
                                                                const SubspacesOptions& options, Pool& pool,
                                                                Warnings& warnings);

}  // namespace attnctl
