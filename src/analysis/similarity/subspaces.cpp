#include "analysis/similarity/subspaces.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

/// The subspace of one projection of a head (see CircuitFactor). Heads and layers can share it.
struct Subspace {
  ProjectionSpectrum spectrum;
  OwnedMatrix<float> basis;   // [rank, dimension], orthonormal rows
  std::size_t dimension = 0;  // dimension of the space
};

/// Computes the spectrum and the basis from the SVD of a slice of the factor. The basis consists of the first
/// left singular vectors of the slice; their number is its numerical rank.
Subspace decompose(const CircuitFactor& factor, std::size_t head) {
  Subspace result;
  result.dimension = factor.dimension();
  OwnedMatrix<double> columns = factor.columns(head);
  if (!linalg::all_finite(columns.values())) return result;
  OwnedMatrix<double> unit = identity(factor.width());
  const linalg::ProductSvd svd = linalg::svd_of_product(columns.view(), unit.view(), factor.width());
  ProjectionSpectrum& spectrum = result.spectrum;
  spectrum.effective_rank = linalg::effective_rank(svd.values);
  if (!spectrum.effective_rank) return result;
  spectrum.rank = linalg::numerical_rank(svd.values, columns.cols(), factor.width());
  result.basis = OwnedMatrix<float>(*spectrum.rank, columns.cols());
  std::ranges::transform(svd.left.values().first(result.basis.values().size()), result.basis.values().begin(),
                         [](double value) { return static_cast<float>(value); });
  spectrum.singular_values = svd.values;
  return result;
}

/// Returns the cosines of the principal angles between two subspaces, in descending order. Empty if a
/// subspace is undefined or has no dimensions.
std::vector<double> cosines_between(const Subspace& a, const Subspace& b) {
  if (a.basis.rows() == 0 || b.basis.rows() == 0) return {};
  const OwnedMatrix<float> product = linalg::product_nt(a.basis.view(), b.basis.view());
  OwnedMatrix<double> core(product.rows(), product.cols());
  std::ranges::copy(product.values(), core.values().begin());
  std::vector<double> cosines = linalg::singular_values(core.view());
  for (double& cosine : cosines) cosine = std::min(cosine, 1.0);
  return cosines;
}

/// Returns the random baseline of SubspaceAngles::values: the mean over all pairs of different heads, and the
/// square root of the mean variance of a pair. Both are undefined if no pair is defined.
RandomNull null_of(const SubspaceAngles& angles) {
  double mean = 0;
  double variance = 0;
  double pairs = 0;
  for (std::size_t a = 0; a < angles.heads.size(); ++a) {
    for (std::size_t b = 0; b < angles.heads.size(); ++b) {
      if (a == b || !std::isfinite(angles.values(a, b)) || angles.dimension < 2) continue;
      const RandomNull null = projection_kernel_null(angles.dimension, *angles.ranks[a], *angles.ranks[b]);
      mean += null.mean;
      variance += null.deviation * null.deviation;
      ++pairs;
    }
  }
  if (pairs == 0) return {};
  return {mean / pairs, std::sqrt(variance / pairs)};
}

SubspaceAngles angles_of(const HeadGroup& group, std::span<const Subspace> subspaces, Pool& pool) {
  const std::size_t count = group.items.size();
  std::vector<std::vector<double>> cosines(count * count);  // [items, items], upper triangle
  pool.run(cosines.size(), [&](std::size_t task, std::size_t) {
    const Subspace& a = subspaces[group.items[task / count]];
    const Subspace& b = subspaces[group.items[task % count]];
    if (&a == &b) cosines[task].assign(a.spectrum.rank.value_or(0), 1.0);
    if (task / count < task % count) cosines[task] = cosines_between(a, b);
  });

  SubspaceAngles angles;
  angles.layer = group.layer;
  angles.heads.assign(group.heads.begin(), group.heads.end());
  for (const std::size_t place : group.place) {
    const Subspace& subspace = subspaces[group.items[place]];
    angles.ranks.push_back(subspace.spectrum.rank);
    angles.angles = std::max(angles.angles, subspace.spectrum.rank.value_or(0));
    angles.dimension = subspace.dimension;
  }
  const std::size_t heads = group.heads.size();
  angles.values = OwnedMatrix<double>(heads, heads);
  angles.cosines.assign(heads * heads * angles.angles, kUndefined);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = 0; b < heads; ++b) {
      angles.values(a, b) = kUndefined;
      if (!angles.ranks[a] || !angles.ranks[b]) continue;
      const auto [low, high] = std::minmax(group.place[a], group.place[b]);
      const std::vector<double>& own = cosines[low * count + high];
      const double ranks = static_cast<double>(*angles.ranks[a]) * static_cast<double>(*angles.ranks[b]);
      angles.values(a, b) = std::min(dot(own, own) / std::sqrt(ranks), 1.0);
      std::ranges::copy(
          own, angles.cosines.begin() + static_cast<std::ptrdiff_t>((a * heads + b) * angles.angles));
    }
  }
  angles.null = null_of(angles);
  return angles;
}

ProjectionAnalysis analyze(const SharedFactors<CircuitFactor>& shared, Projection projection,
                           const std::vector<model::HeadId>& heads, bool across_layers, Pool& pool) {
  std::vector<Subspace> subspaces(shared.items.size());
  pool.run(subspaces.size(), [&](std::size_t task, std::size_t) {
    subspaces[task] = decompose(*shared.items[task].factors, shared.items[task].head);
  });
  ProjectionAnalysis analysis;
  analysis.projection = projection;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    analysis.heads.push_back(subspaces[shared.item_of_head[i]].spectrum);
    analysis.heads.back().head = heads[i];
  }
  for (const HeadGroup& group : group_heads(heads, shared.item_of_head, across_layers)) {
    if (group.same == analysis.angles.size()) {
      analysis.angles.push_back(angles_of(group, subspaces, pool));
      continue;
    }
    analysis.angles.push_back(SubspaceAngles(analysis.angles[group.same]));
    analysis.angles.back().heads.assign(group.heads.begin(), group.heads.end());
    analysis.angles.back().layer = group.layer;
  }
  return analysis;
}

}  // namespace

RandomNull projection_kernel_null(std::size_t dimension, std::size_t rank_a, std::size_t rank_b) {
  const auto d = static_cast<double>(dimension);
  const auto a = static_cast<double>(rank_a);
  const auto b = static_cast<double>(rank_b);
  return {std::sqrt(a * b) / d, std::sqrt(2 * (d - a) * (d - b) / (d - 1) / (d + 2)) / d};
}

std::vector<ProjectionAnalysis> analyze_subspaces(const model::Model& model,
                                                  const forward::Selection& selection,
                                                  const WeightsOptions& options, Pool& pool,
                                                  Warnings& warnings) {
  std::vector<ProjectionAnalysis> analyses;
  for (const Projection projection : kAllProjections) {
    const auto shared = share_factors<CircuitFactor>(
        model, selection, options.fold_norm,
        [&](std::size_t layer) { return projection_factor(model, layer, projection, options.fold_norm); });
    if (!shared) continue;
    analyses.push_back(analyze(*shared, projection, selection.heads, options.across_layers, pool));
    for (const ProjectionSpectrum& head : analyses.back().heads) {
      if (head.effective_rank) continue;
      warnings.add("undefined_projection",
                   fmt::format("{} of head {} is zero or has a weight that is NaN or infinite; its ranks and "
                               "angles are undefined",
                               name_of(projection), model::head_name(model.config(), head.head)));
    }
  }
  return analyses;
}

}  // namespace attnctl::analysis
