#include "analysis/weights/weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "analysis/weights/ranks.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl {
namespace {

/// Identifies the circuits of a layer by the first layer with the same weights and the folded gain. Layers
/// with equal keys have the same circuits.
using Source = std::pair<std::size_t, const float*>;

Source source_of(const Model& model, std::size_t layer, bool fold_norm) {
  return {model.shared_with(layer), fold_norm ? folded_gain(model, layer).data() : nullptr};
}

/// The results of one head. They are computed once and reported for every head that shares its weights.
struct SourceHead {
  const CircuitFactors* factors = nullptr;
  std::size_t head = 0;
  HeadSpectrum spectrum;
  ComparedHead compared;
};

/// Both factors of the circuit of one head, transposed, in double. Each worker reuses its buffers for all its
/// heads.
struct FactorBuffers {
  OwnedMatrix<double> left, right;
};

struct CircuitWork {
  Circuit circuit = Circuit::qk;
  std::map<Source, CircuitFactors> factors;
  std::vector<SourceHead> sources;
  std::vector<std::size_t> source_of_head;  // [selected heads]: index into `sources`
};

CircuitWork collect(const Model& model, const Selection& selection, Circuit circuit, bool fold_norm) {
  CircuitWork work{.circuit = circuit, .factors = {}, .sources = {}, .source_of_head = {}};
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
    if (is_new) {
      work.sources.push_back({.factors = &found->second, .head = id.head, .spectrum = {}, .compared = {}});
    }
    work.source_of_head.push_back(entry->second);
  }
  return work;
}

MatrixView<double> read(const CircuitFactor& factor, std::size_t head, OwnedMatrix<double>& buffer) {
  if (buffer.rows() != factor.width() || buffer.cols() != factor.dimension()) {
    buffer = OwnedMatrix<double>(factor.width(), factor.dimension());
  }
  factor.read_columns(head, buffer.view());
  return buffer.view();
}

OwnedMatrix<float> narrowed(const OwnedMatrix<double>& matrix) {
  OwnedMatrix<float> narrow(matrix.rows(), matrix.cols());
  for (std::size_t r = 0; r < matrix.rows(); ++r) {
    for (std::size_t c = 0; c < matrix.cols(); ++c) narrow(r, c) = static_cast<float>(matrix(r, c));
  }
  return narrow;
}

void analyze(SourceHead& source, std::size_t directions, FactorBuffers& buffers) {
  const MatrixView<double> left = read(source.factors->left, source.head, buffers.left);
  const MatrixView<double> right = read(source.factors->right, source.head, buffers.right);
  HeadSpectrum& spectrum = source.spectrum;
  spectrum.finite = all_finite(buffers.left.values()) && all_finite(buffers.right.values());
  if (!spectrum.finite) return;

  const double mass = circuit_mass(left, right);
  ProductSvd svd = svd_of_product(left, right, directions);
  spectrum.effective_rank = effective_rank(svd.values);
  spectrum.stable_rank = stable_rank(svd.values);
  spectrum.numerical_rank = numerical_rank(svd.values, left.cols, right.cols);
  const double norm =
      std::sqrt(std::inner_product(svd.values.begin(), svd.values.end(), svd.values.begin(), 0.0));
  source.compared = {source.factors, source.head, norm, mass / norm};
  if (spectrum.effective_rank) {
    spectrum.left = narrowed(svd.left);
    spectrum.right = narrowed(svd.right);
  }
  spectrum.singular_values = std::move(svd.values);
}

void warn_of_undefined(const CircuitAnalysis& circuit, Warnings& warnings) {
  for (const HeadSpectrum& head : circuit.heads) {
    if (head.effective_rank) continue;
    warnings.add("undefined_circuit",
                 fmt::format("{} circuit of head {}: {}; its ranks and similarities are undefined",
                             name_of(circuit.circuit), to_string(head.head),
                             head.finite ? "it is zero" : "a weight is NaN or infinite"));
  }
}

/// A similarity matrix to compute for some selected heads, and the set of circuits to compare for it.
struct PlannedSimilarity {
  std::optional<std::size_t> layer;
  std::span<const HeadId> heads;
  std::size_t set = 0;
  std::vector<std::size_t> place;  // [heads]: index of the circuit of each head in the set
};

using ComparedSets = std::vector<std::vector<ComparedHead>>;

/// Returns the similarity matrices to compute for a circuit. Appends the sets of circuits to compare to
/// `sets`. A set contains each circuit once, even if several heads share it. Layers with equal sets share one
/// set.
std::vector<PlannedSimilarity> plan_similarities(const CircuitWork& work, std::span<const HeadId> heads,
                                                 bool across_layers, ComparedSets& sets) {
  std::vector<PlannedSimilarity> plan;
  std::map<std::vector<std::size_t>, std::size_t> known;
  for (std::size_t first = 0, last = 0; first < heads.size(); first = last) {
    while (last < heads.size() && (across_layers || heads[last].layer == heads[first].layer)) ++last;
    PlannedSimilarity& similarity = plan.emplace_back();
    similarity.heads = heads.subspan(first, last - first);
    if (!across_layers) similarity.layer = heads[first].layer;
    std::vector<std::size_t> distinct;
    for (const std::size_t source : std::span(work.source_of_head).subspan(first, last - first)) {
      const auto found = std::ranges::find(distinct, source);
      similarity.place.push_back(static_cast<std::size_t>(found - distinct.begin()));
      if (found == distinct.end()) distinct.push_back(source);
    }
    const auto [entry, is_new] = known.emplace(distinct, sets.size());
    similarity.set = entry->second;
    if (!is_new) continue;
    std::vector<ComparedHead>& set = sets.emplace_back();
    for (const std::size_t source : distinct) set.push_back(work.sources[source].compared);
  }
  return plan;
}

SubspaceSimilarity similarity_of(const PlannedSimilarity& plan, const OwnedMatrix<double>& cosines) {
  SubspaceSimilarity similarity;
  similarity.layer = plan.layer;
  similarity.heads.assign(plan.heads.begin(), plan.heads.end());
  similarity.values = OwnedMatrix<double>(plan.heads.size(), plan.heads.size());
  for (std::size_t i = 0; i < plan.heads.size(); ++i) {
    for (std::size_t j = 0; j < plan.heads.size(); ++j) {
      similarity.values(i, j) = cosines(plan.place[i], plan.place[j]);
    }
  }
  similarity.off_diagonal = off_diagonal(std::as_const(similarity.values).view());
  return similarity;
}

/// Computes the SVD of every source of both circuits, in one parallel run.
void analyze_sources(std::span<CircuitWork> works, std::size_t directions, Pool& pool) {
  std::vector<SourceHead*> sources;
  for (CircuitWork& work : works) {
    for (SourceHead& source : work.sources) sources.push_back(&source);
  }
  std::vector<FactorBuffers> buffers(pool.size());
  pool.run(sources.size(), [&](std::size_t task, std::size_t worker) {
    analyze(*sources[task], directions, buffers[worker]);
  });
}

std::vector<HeadSpectrum> spectra_of(const CircuitWork& work, std::span<const HeadId> heads) {
  std::vector<HeadSpectrum> spectra;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    spectra.push_back(work.sources[work.source_of_head[i]].spectrum);
    spectra.back().head = heads[i];
  }
  return spectra;
}

/// The results for QK and OV, in this order. nullopt if a selected layer does not have the circuit.
using FoundCircuits = std::array<std::optional<CircuitAnalysis>, 2>;

/// Analyzes all heads. The weights of all layers are in memory at the same time.
FoundCircuits analyze_together(const Model& model, const Selection& selection, const WeightsOptions& options,
                               Pool& pool) {
  for (const std::size_t layer : selection.layers()) (void)model.attention(layer, &pool);
  std::array works{collect(model, selection, Circuit::qk, options.fold_norm),
                   collect(model, selection, Circuit::ov, options.fold_norm)};
  analyze_sources(works, options.directions, pool);

  ComparedSets sets;
  std::array<std::vector<PlannedSimilarity>, works.size()> plans;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (works[i].sources.empty()) continue;
    plans[i] = plan_similarities(works[i], selection.heads, options.across_layers, sets);
  }
  const std::vector<OwnedMatrix<double>> cosines = frobenius_cosines(sets, pool);

  FoundCircuits result;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (works[i].sources.empty()) continue;
    CircuitAnalysis& analysis = result[i].emplace();
    analysis.circuit = works[i].circuit;
    analysis.heads = spectra_of(works[i], selection.heads);
    for (const PlannedSimilarity& plan : plans[i])
      analysis.similarity.push_back(similarity_of(plan, cosines[plan.set]));
  }
  return result;
}

/// Analyzes one layer at a time and releases its weights before the next layer.
FoundCircuits analyze_layers(const Model& model, const Selection& selection, const WeightsOptions& options,
                             Pool& pool) {
  FoundCircuits result{CircuitAnalysis{.circuit = Circuit::qk, .heads = {}, .similarity = {}},
                       CircuitAnalysis{.circuit = Circuit::ov, .heads = {}, .similarity = {}}};
  for (const std::size_t layer : selection.layers()) {
    Selection of_layer;
    std::ranges::copy_if(selection.heads, std::back_inserter(of_layer.heads),
                         [&](HeadId head) { return head.layer == layer; });
    FoundCircuits found = analyze_together(model, of_layer, options, pool);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (!found[i]) result[i].reset();
      if (!result[i]) continue;
      std::ranges::move(found[i]->heads, std::back_inserter(result[i]->heads));
      std::ranges::move(found[i]->similarity, std::back_inserter(result[i]->similarity));
    }
    model.evict_attention(layer);
    model.evict_layer(layer);  // a folded norm is in this layer or in the layer below
    if (layer > 0) model.evict_layer(layer - 1);
  }
  return result;
}

}  // namespace

WeightsAnalysis analyze_weights(const Model& model, const Selection& selection, const WeightsOptions& options,
                                Pool& pool, Warnings& warnings) {
  const bool by_layer = options.streamed && !options.across_layers;
  FoundCircuits found = by_layer ? analyze_layers(model, selection, options, pool)
                                 : analyze_together(model, selection, options, pool);
  for (const std::optional<CircuitAnalysis>& circuit : found) {
    if (circuit) warn_of_undefined(*circuit, warnings);
  }
  return {std::move(found[0]).value_or(CircuitAnalysis()), std::move(found[1])};
}

}  // namespace attnctl
