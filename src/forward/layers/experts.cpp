#include "forward/layers/experts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "forward/layers/dense.hpp"

namespace attnctl::forward {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// softmax of some of a row's scores.
std::vector<double> softmax_of(std::span<const float> scores, std::span<const std::size_t> of) {
  double largest = -INFINITY;
  for (const std::size_t e : of) largest = std::max(largest, double{scores[e]});
  std::vector<double> weights;
  double sum = 0;
  for (const std::size_t e : of) sum += weights.emplace_back(std::exp(double{scores[e]} - largest));
  for (double& weight : weights) weight /= sum;
  return weights;
}

ExpertRoute route_of(const ExpertsConfig& config, std::span<const float> scores) {
  std::vector<std::size_t> all(scores.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::size_t> picked = all;
  std::ranges::stable_sort(picked, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  picked.resize(config.per_token);
  std::vector<double> weights;
  if (config.softmax_after_topk) {
    weights = softmax_of(scores, picked);
  } else {
    const std::vector<double> of_all = softmax_of(scores, all);
    for (const std::size_t e : picked) weights.push_back(of_all[e]);
  }
  const double sum = config.renormalised ? std::accumulate(weights.begin(), weights.end(), 0.0) : 1;
  ExpertRoute route{std::move(picked), {}};
  for (const double weight : weights) route.weights.push_back(static_cast<float>(weight / sum));
  return route;
}

/// inner = (up + 1) g sigmoid(alpha g), both clamped.
void combine_clamped(const ExpertsConfig& config, MatrixView<const float> gate, MatrixView<float> inner) {
  const float limit = config.limit;
  for (std::size_t r = 0; r < inner.rows; ++r) {
    for (std::size_t c = 0; c < inner.cols; ++c) {
      const double g = std::min(gate(r, c), limit);
      const double up = std::clamp(inner(r, c), -limit, limit);
      inner(r, c) = static_cast<float>((up + 1) * g * sigmoid(config.alpha * g));
    }
  }
}

/// out = what an expert makes of its rows.
void run_expert(Pool& pool, const LayerConfig& config, const MlpWeights& weights, MlpBuffers& buffers,
                MatrixView<const float> input, MatrixView<float> out) {
  Dense down;
  down.out = out;
  if (config.experts.limit == 0) return run_mlp(pool, config.mlp, weights, buffers, input, down);
  const std::size_t width = weights.up.out();
  const Dense both[] = {{input, weights.gate, buffers.gate.take(input.rows, width)},
                        {input, weights.up, buffers.inner.take(input.rows, width)}};
  run_dense(pool, both);
  combine_clamped(config.experts, both[0].out, both[1].out);
  down.x = both[1].out;
  down.weights = weights.down;
  run_dense(pool, {&down, 1});
}

void add_shared(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
                MatrixView<const float> input, MatrixView<float> out) {
  OwnedMatrix<float> factor(input.rows, 1);
  OwnedMatrix<float> made(input.rows, out.cols);
  const Dense product{input, weights.shared_factor, factor.view()};
  run_dense(pool, {&product, 1});
  Dense down;
  down.out = made.view();
  run_mlp(pool, config.mlp, weights.shared, buffers, input, down);
  for (std::size_t r = 0; r < out.rows; ++r) {
    const auto share = static_cast<float>(sigmoid(factor(r, 0)));
    for (std::size_t c = 0; c < out.cols; ++c) out(r, c) += share * made(r, c);
  }
}

}  // namespace

std::vector<ExpertRoute> route(const ExpertsConfig& config, MatrixView<const float> scores) {
  std::vector<ExpertRoute> routes;
  routes.reserve(scores.rows);
  for (std::size_t r = 0; r < scores.rows; ++r) routes.push_back(route_of(config, scores.row(r)));
  return routes;
}

void run_experts(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
                 MatrixView<const float> input, MatrixView<float> out, std::vector<ExpertRoute>* routes) {
  OwnedMatrix<float> scores(input.rows, config.experts.count);
  const Dense router{input, weights.router, scores.view()};
  run_dense(pool, {&router, 1});
  std::vector<ExpertRoute> found = route(config.experts, std::as_const(scores).view());
  for (std::size_t r = 0; r < out.rows; ++r) std::ranges::fill(out.row(r), 0.0F);
  for (std::size_t e = 0; e < config.experts.count; ++e) {
    std::vector<std::pair<std::size_t, float>> rows;  // that go through this expert, and its weight
    for (std::size_t r = 0; r < found.size(); ++r) {
      const auto at = std::ranges::find(found[r].experts, e);
      if (at != found[r].experts.end())
        rows.emplace_back(r, found[r].weights[static_cast<std::size_t>(at - found[r].experts.begin())]);
    }
    if (rows.empty()) continue;
    OwnedMatrix<float> gathered(rows.size(), input.cols);
    OwnedMatrix<float> made(rows.size(), out.cols);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::ranges::copy(input.row(rows[i].first), gathered.view().row(i).begin());
    run_expert(pool, config, weights.experts[e], buffers, gathered.view(), made.view());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto [row, weight] = rows[i];
      for (std::size_t c = 0; c < out.cols; ++c) out(row, c) += weight * made(i, c);
    }
  }
  if (config.experts.shared_width > 0) add_shared(pool, config, weights, buffers, input, out);
  if (routes != nullptr) std::ranges::move(found, std::back_inserter(*routes));
}

}  // namespace attnctl::forward
