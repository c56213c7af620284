#include "analysis/similarity/subspaces.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "analysis/weights/ranks.hpp"
#include "base/undefined.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl {
namespace {

/// The part of a projection weight that belongs to one head (see CircuitFactor). Heads and layers can share
/// it.
struct Slice {
  const CircuitFactor* factor = nullptr;
  std::size_t head = 0;  // one of the heads that use this slice
  ProjectionSpectrum spectrum;
  OwnedMatrix<float> basis;  // [rank, dimension], orthonormal rows
};

/// One projection of the selected heads. Each distinct slice is listed once.
struct Work {
  std::map<std::pair<std::size_t, const float*>, CircuitFactor> factors;
  std::vector<Slice> slices;
  std::vector<std::size_t> slice_of_head;  // [selected heads]: index of the slice
};

std::optional<Work> collect(const Model& model, const Selection& selection, Projection projection,
                            bool fold_norm) {
  Work work;
  std::map<std::tuple<std::size_t, const float*, std::size_t>, std::size_t> known;
  for (const HeadId id : selection.heads) {
    const float* gain = fold_norm ? folded_gain(model, id.layer).data() : nullptr;
    const std::pair source(model.shared_with(id.layer), gain);
    auto found = work.factors.find(source);
    if (found == work.factors.end()) {
      auto factor = projection_factor(model, id.layer, projection, fold_norm);
      if (!factor) return std::nullopt;
      found = work.factors.emplace(source, std::move(*factor)).first;
    }
    const std::tuple key(source.first, gain, found->second.slice_of(id.head));
    const auto [entry, is_new] = known.emplace(key, work.slices.size());
    if (is_new) work.slices.push_back({&found->second, id.head, {}, {}});
    work.slice_of_head.push_back(entry->second);
  }
  return work;
}

/// Computes the spectrum and the basis of a slice from its SVD. The basis consists of the first left singular
/// vectors; their number is the numerical rank.
void decompose(Slice& slice) {
  const std::size_t width = slice.factor->width();
  OwnedMatrix<double> columns = slice.factor->columns(slice.head);
  if (!all_finite(columns.values())) return;
  OwnedMatrix<double> identity(width, width);
  for (std::size_t i = 0; i < width; ++i) identity(i, i) = 1;
  const ProductSvd svd = svd_of_product(columns.view(), identity.view(), width);
  ProjectionSpectrum& spectrum = slice.spectrum;
  spectrum.effective_rank = effective_rank(svd.values);
  if (!spectrum.effective_rank) return;
  spectrum.rank = numerical_rank(svd.values, columns.cols(), width);
  slice.basis = OwnedMatrix<float>(*spectrum.rank, columns.cols());
  for (std::size_t i = 0; i < *spectrum.rank; ++i) {
    std::ranges::transform(svd.left.view().row(i), slice.basis.view().row(i).begin(),
                           [](double value) { return static_cast<float>(value); });
  }
  spectrum.singular_values = svd.values;
}

/// Returns the cosines of the principal angles between the subspaces of two slices, in descending order.
/// Empty if the subspace of a slice is undefined or has no dimensions.
std::vector<double> cosines_between(const Slice& a, const Slice& b) {
  if (a.basis.rows() == 0 || b.basis.rows() == 0) return {};
  OwnedMatrix<float> product(a.basis.rows(), b.basis.rows());
  gemm_nt(std::as_const(a.basis).view(), std::as_const(b.basis).view(), product.view());
  OwnedMatrix<double> core(product.rows(), product.cols());
  std::ranges::copy(product.values(), core.values().begin());
  std::vector<double> cosines = singular_values(std::as_const(core).view());
  for (double& cosine : cosines) cosine = std::min(cosine, 1.0);
  return cosines;
}

/// The cosines of the principal angles of all pairs of slices. The pair (a, b) with a < b is stored at
/// index(a, b).
class PairCosines {
 public:
  PairCosines(const std::vector<const Slice*>& slices, Pool& pool) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t b = 0; b < slices.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) pairs.emplace_back(a, b);
    }
    cosines_.resize(pairs.size());
    pool.run(pairs.size(), [&](std::size_t task, std::size_t) {
      cosines_[task] = cosines_between(*slices[pairs[task].first], *slices[pairs[task].second]);
    });
    for (const Slice* slice : slices) own_.emplace_back(slice->spectrum.rank.value_or(0), 1.0);
  }
  [[nodiscard]] const std::vector<double>& of(std::size_t a, std::size_t b) const {
    if (a == b) return own_[a];
    const auto [low, high] = std::minmax(a, b);
    return cosines_[high * (high - 1) / 2 + low];
  }

 private:
  std::vector<std::vector<double>> cosines_;
  std::vector<std::vector<double>> own_;
};

/// Returns the statistics of |U_a^T U_b|_F^2 / sqrt(r_a r_b) for random subspaces with the same ranks: the
/// mean over all pairs of different heads, and the standard deviation of one pair. nullopt if no pair is
/// defined.
std::optional<RandomNull> null_of(const SubspaceAngles& angles) {
  double mean = 0;
  double variance = 0;
  double pairs = 0;
  for (std::size_t a = 0; a < angles.heads.size(); ++a) {
    for (std::size_t b = 0; b < angles.heads.size(); ++b) {
      if (a == b || !std::isfinite(angles.kernel(a, b)) || angles.dimension < 2) continue;
      const RandomNull null = projection_kernel_null(angles.dimension, *angles.ranks[a], *angles.ranks[b]);
      mean += null.mean;
      variance += null.deviation * null.deviation;
      ++pairs;
    }
  }
  if (pairs == 0) return std::nullopt;
  return RandomNull{mean / pairs, std::sqrt(variance / pairs)};
}

/// Returns the angles between the subspaces of `heads`. `first` is the index of heads[0] in the selection.
SubspaceAngles angles_of(const Work& work, std::span<const HeadId> heads, std::size_t first, Pool& pool) {
  SubspaceAngles angles;
  angles.heads.assign(heads.begin(), heads.end());
  std::vector<const Slice*> distinct;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Slice* slice = &work.slices[work.slice_of_head[first + i]];
    const auto found = std::ranges::find(distinct, slice);
    place.push_back(static_cast<std::size_t>(found - distinct.begin()));
    if (found == distinct.end()) distinct.push_back(slice);
    angles.ranks.push_back(slice->spectrum.rank);
    angles.angles = std::max(angles.angles, slice->spectrum.rank.value_or(0));
    angles.dimension = slice->factor->dimension();
  }
  const PairCosines cosines(distinct, pool);
  angles.kernel = OwnedMatrix<double>(heads.size(), heads.size());
  angles.cosines.assign(heads.size() * heads.size() * angles.angles, kUndefined);
  for (std::size_t a = 0; a < heads.size(); ++a) {
    for (std::size_t b = 0; b < heads.size(); ++b) {
      angles.kernel(a, b) = kUndefined;
      if (!angles.ranks[a] || !angles.ranks[b]) continue;
      const std::vector<double>& own = cosines.of(place[a], place[b]);
      double sum = 0;
      for (const double cosine : own) sum += cosine * cosine;
      angles.kernel(a, b) = std::min(
          sum / std::sqrt(static_cast<double>(*angles.ranks[a]) * static_cast<double>(*angles.ranks[b])),
          1.0);
      std::ranges::copy(
          own, angles.cosines.begin() + static_cast<std::ptrdiff_t>((a * heads.size() + b) * angles.angles));
    }
  }
  angles.off_diagonal = off_diagonal(std::as_const(angles.kernel).view());
  angles.null = null_of(angles);
  return angles;
}

ProjectionAnalysis analyze(Work& work, Projection projection, const Selection& selection,
                           const SubspacesOptions& options, Pool& pool) {
  pool.run(work.slices.size(), [&](std::size_t task, std::size_t) { decompose(work.slices[task]); });
  ProjectionAnalysis analysis;
  analysis.projection = projection;
  const std::span<const HeadId> heads = selection.heads;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    analysis.heads.push_back(work.slices[work.slice_of_head[i]].spectrum);
    analysis.heads.back().head = heads[i];
  }
  // Maps a list of slices to the index of its result, because layers can share all slices.
  std::map<std::vector<std::size_t>, std::size_t> known;
  for (std::size_t first = 0, last = 0; first < heads.size(); first = last) {
    while (last < heads.size() && (options.across_layers || heads[last].layer == heads[first].layer)) ++last;
    const std::vector<std::size_t> slices(work.slice_of_head.begin() + static_cast<std::ptrdiff_t>(first),
                                          work.slice_of_head.begin() + static_cast<std::ptrdiff_t>(last));
    const auto [entry, is_new] = known.emplace(slices, analysis.angles.size());
    SubspaceAngles angles = is_new ? angles_of(work, heads.subspan(first, last - first), first, pool)
                                   : analysis.angles[entry->second];
    angles.heads.assign(heads.begin() + static_cast<std::ptrdiff_t>(first),
                        heads.begin() + static_cast<std::ptrdiff_t>(last));
    if (!options.across_layers) angles.layer = heads[first].layer;
    analysis.angles.push_back(std::move(angles));
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

std::vector<ProjectionAnalysis> analyze_subspaces(const Model& model, const Selection& selection,
                                                  const SubspacesOptions& options, Pool& pool,
                                                  Warnings& warnings) {
  std::vector<ProjectionAnalysis> analyses;
  for (const Projection projection : kAllProjections) {
    std::optional<Work> work = collect(model, selection, projection, options.fold_norm);
    if (!work) continue;
    analyses.push_back(analyze(*work, projection, selection, options, pool));
    for (const ProjectionSpectrum& head : analyses.back().heads) {
      if (head.effective_rank) continue;
      warnings.add("undefined_projection",
                   fmt::format("{} of head {} is zero or holds a weight that is not finite; its ranks and "
                               "angles are undefined",
                               name_of(projection), to_string(head.head)));
    }
  }
  return analyses;
}

}  // namespace attnctl
