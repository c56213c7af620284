#include "attnctl/analysis/weights.hpp"

#include "attnctl/analysis/ranks.hpp"
#include "attnctl/linalg/factor.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace attnctl {
namespace {

/// Layers with the same weights and the same folded gain give the same circuits.
using Source = std::pair<std::size_t, const float*>;

Source source_of(const Model& model, std::size_t layer, bool fold_norm) {
  return {model.shared_with(layer), fold_norm ? folded_gain(model, layer).gain.data() : nullptr};
}

/// What is computed once and reported for every head that has it.
struct SourceHead {
  const CircuitFactors* factors = nullptr;
  std::size_t head = 0;
  HeadSpectrum spectrum;
  double norm = 0;  // |circuit|_F
  bool finite = true;
};

struct CircuitWork {
  std::map<Source, CircuitFactors> factors;
  std::vector<SourceHead> sources;
  std::vector<std::size_t> source_of_head;  // [selected heads]
};

CircuitWork collect(const Model& model, const Selection& selection, Circuit circuit, bool fold_norm) {
  CircuitWork work;
  std::map<std::pair<Source, std::size_t>, std::size_t> known;
  for (const HeadId id : selection.heads) {
    const Source source = source_of(model, id.layer, fold_norm);
    auto found = work.factors.find(source);
    if (found == work.factors.end()) {
      auto factors = circuit_factors(model, id.layer, circuit, fold_norm);
      if (!factors) return {};
      found = work.factors.emplace(source, std::move(*factors)).first;
    }
    const auto [entry, is_new] = known.emplace(std::pair(source, id.head), work.sources.size());
    if (is_new) work.sources.push_back({.factors = &found->second, .head = id.head, .spectrum = {}});
    work.source_of_head.push_back(entry->second);
  }
  return work;
}

bool all_finite(const OwnedMatrix<double>& matrix) {
  return std::all_of(matrix.values().begin(), matrix.values().end(),
                     [](double v) { return std::isfinite(v); });
}

OwnedMatrix<double> first_rows(const OwnedMatrix<double>& matrix, std::size_t count) {
  OwnedMatrix<double> kept(std::min(count, matrix.rows()), matrix.cols());
  std::copy_n(matrix.values().begin(), kept.values().size(), kept.values().begin());
  return kept;
}

void analyze(SourceHead& source, std::size_t directions) {
  const CircuitFactor& left = source.factors->left;
  const CircuitFactor& right = source.factors->right;
  OwnedMatrix<double> a(left.dimension(), left.width());
  OwnedMatrix<double> b(right.dimension(), right.width());
  left.read(source.head, a.view());
  right.read(source.head, b.view());
  source.finite = all_finite(a) && all_finite(b);
  if (!source.finite) return;

  ProductSvd svd = svd_of_product(std::as_const(a).view(), std::as_const(b).view(), directions > 0);
  HeadSpectrum& spectrum = source.spectrum;
  spectrum.effective_rank = effective_rank(svd.values);
  spectrum.stable_rank = stable_rank(svd.values);
  spectrum.numerical_rank = numerical_rank(svd.values, a.rows(), b.rows());
  source.norm = std::sqrt(std::inner_product(svd.values.begin(), svd.values.end(), svd.values.begin(), 0.0));
  if (spectrum.effective_rank) {
    spectrum.left = first_rows(svd.left, directions);
    spectrum.right = first_rows(svd.right, directions);
  }
  spectrum.singular_values = std::move(svd.values);
}

void warn_of_undefined(const CircuitAnalysis& analysis, const CircuitWork& work, Warnings& warnings) {
  for (std::size_t i = 0; i < analysis.heads.size(); ++i) {
    if (analysis.heads[i].effective_rank) continue;
    const bool finite = work.sources[work.source_of_head[i]].finite;
    warnings.add("undefined_circuit",
                 fmt::format("{} circuit of head {}: {}; its ranks and similarities are undefined",
                             name_of(analysis.circuit), to_string(analysis.heads[i].head),
                             finite ? "it is zero" : "a weight is NaN or infinite"));
  }
}

/// The similarity of the selected heads [first, last), each source compared once.
SubspaceSimilarity compare(const CircuitWork& work, std::span<const HeadId> heads,
                           std::span<const std::size_t> sources, Pool& pool) {
  std::vector<ComparedHead> distinct;
  std::map<std::size_t, std::size_t> place;
  for (const std::size_t source : sources) {
    if (!place.emplace(source, distinct.size()).second) continue;
    const SourceHead& head = work.sources[source];
    distinct.push_back({head.factors, head.head, head.norm});
  }
  const OwnedMatrix<double> cosines = frobenius_cosines(distinct, pool);
  SubspaceSimilarity similarity;
  similarity.heads.assign(heads.begin(), heads.end());
  similarity.values = OwnedMatrix<double>(heads.size(), heads.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    for (std::size_t j = 0; j < heads.size(); ++j) {
      similarity.values(i, j) = cosines(place.at(sources[i]), place.at(sources[j]));
    }
  }
  similarity.off_diagonal = off_diagonal(std::as_const(similarity.values).view());
  return similarity;
}

std::vector<SubspaceSimilarity> compare_all(const CircuitWork& work, std::span<const HeadId> heads,
                                            bool across_layers, Pool& pool) {
  const std::span<const std::size_t> sources = work.source_of_head;
  std::vector<SubspaceSimilarity> result;
  if (across_layers) {
    result.push_back(compare(work, heads, sources, pool));
    return result;
  }
  // Layers of the same sources have the same matrix.
  std::map<std::vector<std::size_t>, std::size_t> known;
  for (std::size_t first = 0; first < heads.size();) {
    std::size_t last = first;
    while (last < heads.size() && heads[last].layer == heads[first].layer) ++last;
    const auto layer_heads = heads.subspan(first, last - first);
    const auto layer_sources = sources.subspan(first, last - first);
    const auto [entry, is_new] =
        known.emplace(std::vector(layer_sources.begin(), layer_sources.end()), result.size());
    SubspaceSimilarity similarity =
        is_new ? compare(work, layer_heads, layer_sources, pool) : result[entry->second];
    similarity.layer = heads[first].layer;
    similarity.heads.assign(layer_heads.begin(), layer_heads.end());
    result.push_back(std::move(similarity));
    first = last;
  }
  return result;
}

std::optional<CircuitAnalysis> analyze_circuit(const Model& model, const Selection& selection,
                                               std::pair<Circuit, WeightsOptions> what, Pool& pool,
                                               Warnings& warnings) {
  const Circuit circuit = what.first;
  const WeightsOptions& options = what.second;
  CircuitWork work = collect(model, selection, circuit, options.fold_norm);
  if (work.sources.empty()) return std::nullopt;
  pool.run(work.sources.size(),
           [&](std::size_t task, std::size_t) { analyze(work.sources[task], options.directions); });
  CircuitAnalysis analysis;
  analysis.circuit = circuit;
  for (std::size_t i = 0; i < selection.heads.size(); ++i) {
    analysis.heads.push_back(work.sources[work.source_of_head[i]].spectrum);
    analysis.heads.back().head = selection.heads[i];
  }
  analysis.similarity = compare_all(work, selection.heads, options.across_layers, pool);
  warn_of_undefined(analysis, work, warnings);
  return analysis;
}

}  // namespace

WeightsAnalysis analyze_weights(const Model& model, const Selection& selection, const WeightsOptions& options,
                                Pool& pool, Warnings& warnings) {
  WeightsAnalysis result;
  if (auto qk = analyze_circuit(model, selection, {Circuit::qk, options}, pool, warnings)) {
    result.qk = std::move(*qk);
  }
  result.ov = analyze_circuit(model, selection, {Circuit::ov, options}, pool, warnings);
  return result;
}

}  // namespace attnctl
