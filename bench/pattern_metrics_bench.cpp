#include <cstdio>
#include <random>

#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis_bench.hpp"

namespace attnctl::bench {
namespace {

/// An observer that does nothing, to measure only the pass.
class Blind final : public forward::Observer {
 public:
  void begin(const model::Model& /*model*/, const input::Batch& /*batch*/) override {}
  void panel(const forward::AttentionPanel& /*panel*/) override {}
};

input::Batch random_input(std::size_t n, std::size_t d, bool causal) {
  std::mt19937_64 engine(2);
  std::normal_distribution<float> normal(0, 3);
  input::Batch batch;
  input::Sequence& sequence = batch.sequences.emplace_back();
  sequence.embeddings = OwnedMatrix<float>(n, d);
  for (float& value : sequence.embeddings.values()) value = normal(engine);
  sequence.causal = causal;
  return batch;
}

}  // namespace

/// Compares with attention only, without the MLPs of a real model: the worst case for the share of the
/// metrics.
void pattern_metrics(std::size_t threads) {
  const Shapes shapes{.layers = 2};
  const model::Model model = random_model(shapes);
  Pool pool(threads);
  Warnings warnings;
  const forward::Selection all = forward::Selection::all(model.config());
  forward::RunContext context{.pool = pool, .warnings = warnings};
  std::printf("pattern metrics, %zu layers x %zu heads, d %zu\n", shapes.layers, shapes.heads, shapes.d);
  for (const std::size_t n : {std::size_t{128}, std::size_t{512}, std::size_t{1024}}) {
    const input::Batch batch = random_input(n, shapes.d, false);
    const auto run = [&](forward::Observer& observer) {
      forward::Observer* const one = &observer;
      forward::run_forward(model, batch, all, {&one, 1}, context);
    };
    Blind blind;
    analysis::PatternMetrics metrics(all, false);
    const double pass = best_ms(7, [&] { run(blind); });
    const double with = best_ms(7, [&] { run(metrics); });
    const double weights = static_cast<double>(shapes.layers * shapes.heads * n * n);
    std::printf("  n %5zu: pass %7.1f ms, with metrics %7.1f ms, %.2f ns a weight and thread\n", n, pass,
                with, (with - pass) * 1e6 * static_cast<double>(threads) / weights);
  }
}

}  // namespace attnctl::bench
