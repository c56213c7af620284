#include "analysis/weights/weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "linalg/decompositions.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

/// Both factors of a circuit, transposed. Each worker reuses its buffers for all its heads.
struct FactorBuffers {
  OwnedMatrix<double> left, right;
};

struct AnalyzedCircuit {
  HeadSpectrum spectrum;
  ComparedHead compared;
};

OwnedMatrix<float> narrowed(const OwnedMatrix<double>& matrix) {
  OwnedMatrix<float> narrow(matrix.rows(), matrix.cols());
  std::ranges::transform(matrix.values(), narrow.values().begin(),
                         [](double value) { return static_cast<float>(value); });
  return narrow;
}

AnalyzedCircuit analyze(const SharedFactors<CircuitFactors>::Item& item, std::size_t directions,
                        FactorBuffers& buffers) {
  const MatrixView<double> left = item.factors->left.read_columns(item.head, buffers.left);
  const MatrixView<double> right = item.factors->right.read_columns(item.head, buffers.right);
  AnalyzedCircuit result;
  HeadSpectrum& spectrum = result.spectrum;
  spectrum.finite = linalg::all_finite(buffers.left.values()) && linalg::all_finite(buffers.right.values());
  if (!spectrum.finite) return result;

  const double mass = circuit_mass(left, right);
  linalg::ProductSvd svd = linalg::svd_of_product(left, right, directions);
  spectrum.effective_rank = linalg::effective_rank(svd.values);
  spectrum.stable_rank = linalg::stable_rank(svd.values);
  spectrum.numerical_rank = linalg::numerical_rank(svd.values, left.cols, right.cols);
  const double norm = std::sqrt(dot(svd.values, svd.values));
  result.compared = {item.factors, item.head, norm, mass / norm};
  if (spectrum.effective_rank) {
    spectrum.left = narrowed(svd.left);
    spectrum.right = narrowed(svd.right);
  }
  spectrum.singular_values = std::move(svd.values);
  return result;
}

/// Returns the similarities of the heads of each group. Each distinct set of circuits is compared once.
std::vector<HeadMatrix> similarities_of(const std::vector<HeadGroup>& groups,
                                        std::span<const AnalyzedCircuit> circuits, Pool& pool) {
  std::vector<std::vector<ComparedHead>> sets(groups.size());  // empty if it is that of an earlier group
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].same != g) continue;
    for (const std::size_t item : groups[g].items) sets[g].push_back(circuits[item].compared);
  }
  const std::vector<OwnedMatrix<double>> cosines = frobenius_cosines(sets, pool);
  std::vector<HeadMatrix> similarities;
  for (const HeadGroup& group : groups) {
    const OwnedMatrix<double>& of_set = cosines[group.same];
    HeadMatrix& similarity = similarities.emplace_back();
    similarity.layer = group.layer;
    similarity.heads.assign(group.heads.begin(), group.heads.end());
    similarity.values = OwnedMatrix<double>(group.heads.size(), group.heads.size());
    for (std::size_t i = 0; i < group.heads.size(); ++i) {
      for (std::size_t j = 0; j < group.heads.size(); ++j)
        similarity.values(i, j) = of_set(group.place[i], group.place[j]);
    }
  }
  return similarities;
}

/// Appends the results of the heads to `analysis`. Returns false if a selected layer has no such circuit.
bool add_circuit(const model::Model& model, const forward::Selection& selection,
                 const WeightsOptions& options, Pool& pool, CircuitAnalysis& analysis) {
  const auto shared = share_factors<CircuitFactors>(
      model, selection, options.fold_norm,
      [&](std::size_t layer) { return circuit_factors(model, layer, analysis.circuit, options.fold_norm); });
  if (!shared) return false;
  std::vector<AnalyzedCircuit> circuits(shared->items.size());
  std::vector<FactorBuffers> buffers(pool.size());
  pool.run(circuits.size(), [&](std::size_t task, std::size_t worker) {
    circuits[task] = analyze(shared->items[task], options.directions, buffers[worker]);
  });
  for (std::size_t i = 0; i < selection.heads.size(); ++i) {
    analysis.heads.push_back(circuits[shared->item_of_head[i]].spectrum);
    analysis.heads.back().head = selection.heads[i];
  }
  const auto groups = group_heads(selection.heads, shared->item_of_head, options.across_layers);
  std::ranges::move(similarities_of(groups, circuits, pool), std::back_inserter(analysis.similarity));
  return true;
}

void warn_of_undefined(const CircuitAnalysis& circuit, const model::ModelConfig& config, Warnings& warnings) {
  for (const HeadSpectrum& head : circuit.heads) {
    if (head.effective_rank) continue;
    warnings.add(
        "undefined_circuit",
        fmt::format("{} circuit of head {}: {}; its effective rank, stable rank and similarities are "
                    "undefined",
                    name_of(circuit.circuit), model::head_name(config, head.head),
                    head.finite ? "it is zero" : "a weight is NaN or infinite"));
  }
}

}  // namespace

WeightsAnalysis analyze_weights(const model::Model& model, const forward::Selection& selection,
                                const WeightsOptions& options, Pool& pool, Warnings& warnings) {
  const bool by_layer = options.streamed && !options.across_layers;
  std::vector<forward::Selection> parts;  // the heads of each layer, or all heads
  for (const model::HeadId head : selection.heads) {
    if (parts.empty() || (by_layer && parts.back().heads.back().layer != head.layer)) parts.emplace_back();
    parts.back().heads.push_back(head);
  }
  std::array<std::optional<CircuitAnalysis>, 2> found{CircuitAnalysis{Circuit::qk, {}, {}},
                                                      CircuitAnalysis{Circuit::ov, {}, {}}};
  for (const forward::Selection& part : parts) {
    for (const std::size_t layer : part.layers()) (void)model.attention(layer, &pool);
    for (std::optional<CircuitAnalysis>& circuit : found) {
      if (circuit && !add_circuit(model, part, options, pool, *circuit)) circuit.reset();
    }
    if (!by_layer) continue;
    const std::size_t layer = part.heads.front().layer;
    model.evict_layer(layer);  // a folded norm can be in this layer or in the layer below
    if (layer > 0) model.evict_layer(layer - 1);
  }
  for (const std::optional<CircuitAnalysis>& circuit : found) {
    if (circuit) warn_of_undefined(*circuit, model.config(), warnings);
  }
  return {std::move(found[0]).value(), std::move(found[1])};
}

}  // namespace attnctl::analysis
