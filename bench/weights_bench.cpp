#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "analysis/weights/weights.hpp"
#include "analysis_bench.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"

namespace attnctl::bench {
namespace {

/// Follows the definition: forms and flattens every circuit, and computes cosines by one product. Heads run
/// in parallel with single-threaded BLAS, as in the factored version.
void form_and_compare(const analysis::CircuitFactors& factors, std::size_t heads, Pool& pool) {
  const std::size_t size = factors.left.dimension() * factors.right.dimension();
  OwnedMatrix<double> flat(heads, size);
  pool.run(heads, [&](std::size_t head, std::size_t) {
    const OwnedMatrix<double> circuit = analysis::form_circuit(factors, head);
    std::copy(circuit.values().begin(), circuit.values().end(), flat.view().row(head).begin());
  });
  OwnedMatrix<double> gram(heads, heads);
  linalg::gemm_nt(std::as_const(flat).view(), std::as_const(flat).view(), gram.view());
}

void decompose_formed(const analysis::CircuitFactors& factors) {
  const OwnedMatrix<double> circuit = analysis::form_circuit(factors, 0);
  (void)linalg::singular_values(circuit.view());
}

}  // namespace

void weights_layer(std::size_t threads) {
  Pool pool(threads);
  for (const Shapes& shapes : {Shapes{1, 12, 768}, Shapes{1, 16, 1024}, Shapes{1, 32, 4096}}) {
    const model::Model model = random_model(shapes);
    Warnings warnings;
    const forward::Selection all = forward::Selection::all(model.config());
    const auto analyze = [&](const analysis::WeightsOptions& options) {
      (void)analysis::analyze_weights(model, all, options, pool, warnings);
    };
    analyze({});  // weights converted and checked once
    const int runs = shapes.d > 1024 ? 3 : 15;
    const double values = best_ms(runs, [&] { analyze({}); });
    const double directions = best_ms(runs, [&] { analyze({.directions = 5}); });
    std::printf("layer d=%zu h=%zu k=%zu: %.1f ms, with 5 directions %.1f ms\n", shapes.d, shapes.heads,
                shapes.d / shapes.heads, values, directions);
  }
}

void weights(std::size_t threads) {
  const Shapes shapes;
  const model::Model model = random_model(shapes);
  Pool pool(threads);
  Warnings warnings;
  const forward::Selection all = forward::Selection::all(model.config());
  const auto analyze = [&](const analysis::WeightsOptions& options) {
    (void)analysis::analyze_weights(model, all, options, pool, warnings);
  };
  analyze({});  // weights converted and checked once
  const double factored = best_ms(5, [&] { analyze({}); });
  const double directions = best_ms(3, [&] { analyze({.directions = 5}); });
  const double across = best_ms(2, [&] { analyze({.across_layers = true}); });

  const auto factors = analysis::circuit_factors(model, 0, analysis::Circuit::qk, false).value();
  const double compared = best_ms(3, [&] { form_and_compare(factors, shapes.heads, pool); });
  const double decomposed = best_ms(2, [&] { decompose_formed(factors); });
  const auto circuits = static_cast<double>(2 * shapes.layers);
  const double formed =
      circuits * (compared + decomposed * static_cast<double>(shapes.heads) / static_cast<double>(threads));

  std::printf("weights, %zu layers x %zu heads, d %zu\n", shapes.layers, shapes.heads, shapes.d);
  std::printf("  similarity and ranks        %8.0f ms\n", factored);
  std::printf("  with principal directions   %8.0f ms\n", directions);
  std::printf("  similarity across layers    %8.0f ms\n", across);
  std::printf("  circuits formed (estimated) %8.0f ms  %.0f times as long; similarity alone %.0f ms\n",
              formed, formed / factored, circuits * compared);
}

}  // namespace attnctl::bench
