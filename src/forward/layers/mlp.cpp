#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "forward/layers/layers.hpp"

namespace attnctl::forward {
namespace {

/// Computes the MLP of down.x [rows, d_model]. Writes it to down.out, or adds it if down.accumulate is true.
void run_mlp(Pool& pool, const model::MlpConfig& config, const model::MlpWeights& weights,
             MlpBuffers& buffers, Dense down) {
  Dense up{down.x, weights.up, buffers.inner.take(down.x.rows, weights.up.out())};
  if (config.gated) {
    const Dense gate{down.x, weights.gate, buffers.gate.take(down.x.rows, weights.up.out()),
                     config.activation};
    run_gated(pool, gate, up);
  } else {
    up.activation = config.activation;
    run_dense(pool, up);
  }
  down.x = up.out;
  run_dense(pool, down);
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

std::vector<double> softmax_over(std::span<const float> scores, std::span<const std::size_t> experts) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const std::size_t e : experts) largest = std::max(largest, double{scores[e]});
  std::vector<double> weights;
  double sum = 0;
  for (const std::size_t e : experts) sum += weights.emplace_back(std::exp(double{scores[e]} - largest));
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// Computes inner = (up + 1) g sigmoid(alpha g). `inner` contains up before the call. First, up is clamped to
/// [-limit, limit], and values of the gate g above the limit are replaced by the limit.
void combine_clamped(const model::ExpertsConfig& config, MatrixView<const float> gate,
                     MatrixView<float> inner) {
  const float limit = config.limit;
  for (std::size_t r = 0; r < inner.rows; ++r) {
    for (std::size_t c = 0; c < inner.cols; ++c) {
      const double g = std::min(gate(r, c), limit);
      const double up = std::clamp(inner(r, c), -limit, limit);
      inner(r, c) = static_cast<float>((up + 1) * g * sigmoid(config.alpha * g));
    }
  }
}

void run_expert(Pool& pool, const model::LayerConfig& config, const model::MlpWeights& weights,
                MlpBuffers& buffers, MatrixView<const float> input, MatrixView<float> out) {
  if (config.experts.limit == 0)
    return run_mlp(pool, config.mlp, weights, buffers, {input, weights.down, out});
  const std::size_t width = weights.up.out();
  const Dense both[] = {{input, weights.gate, buffers.gate.take(input.rows, width)},
                        {input, weights.up, buffers.inner.take(input.rows, width)}};
  run_dense(pool, both);
  combine_clamped(config.experts, both[0].out, both[1].out);
  run_dense(pool, Dense{both[1].out, weights.down, out});
}

void add_shared_expert(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
                       MlpBuffers& buffers, MatrixView<const float> input, MatrixView<float> out) {
  OwnedMatrix<float> factor(input.rows, 1);
  OwnedMatrix<float> made(input.rows, out.cols);
  run_dense(pool, Dense{input, weights.shared_factor, factor.view()});
  run_mlp(pool, config.mlp, weights.shared, buffers, {input, weights.shared.down, made.view()});
  for (std::size_t r = 0; r < out.rows; ++r) {
    const auto share = static_cast<float>(sigmoid(factor(r, 0)));
    for (std::size_t c = 0; c < out.cols; ++c) out(r, c) += share * made(r, c);
  }
}

/// Computes out [rows, d_model]: the weighted sum of the experts of each row, plus the shared expert, if any.
void run_experts(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
                 MlpBuffers& buffers, MatrixView<const float> input, MatrixView<float> out,
                 std::vector<ExpertRoute>* routes) {
  OwnedMatrix<float> scores(input.rows, config.experts.count);
  run_dense(pool, Dense{input, weights.router, scores.view()});
  // For each expert, the rows that use this expert, and its weight in each of these rows.
  std::vector<std::vector<std::pair<std::size_t, float>>> users(config.experts.count);
  for (std::size_t r = 0; r < out.rows; ++r) {
    ExpertRoute route = route_of(config.experts, scores.view().row(r));
    for (std::size_t i = 0; i < route.experts.size(); ++i)
      users[route.experts[i]].emplace_back(r, route.weights[i]);
    if (routes != nullptr) routes->push_back(std::move(route));
    std::ranges::fill(out.row(r), 0.0F);
  }
  for (std::size_t e = 0; e < config.experts.count; ++e) {
    const auto& rows = users[e];
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
  if (config.experts.shared_width > 0) add_shared_expert(pool, config, weights, buffers, input, out);
}

void add_mlp_of_rows(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
                     MlpBuffers& buffers, MatrixView<float> x, std::vector<ExpertRoute>* routes,
                     const std::function<void(MatrixView<float>)>& edit) {
  MatrixView<const float> input = x;
  if (config.place == model::NormPlace::stream) apply_norm(pool, config.norm, weights.mlp_norm, x, x);
  if (config.place == model::NormPlace::pre || config.place == model::NormPlace::both) {
    const MatrixView<float> normed = buffers.normed.take(x.rows, x.cols);
    apply_norm(pool, config.norm, weights.mlp_norm, x, normed);
    input = normed;
  }
  // An output that is edited, normalised or scaled, or that several experts compute, is not added to x
  // directly.
  const bool separate = edit || config.place == model::NormPlace::output ||
                        config.place == model::NormPlace::both || config.residual_multiplier != 1 ||
                        config.experts.count > 0;
  const MatrixView<float> out = separate ? buffers.out.take(x.rows, x.cols) : x;
  if (config.experts.count > 0) {
    run_experts(pool, config, weights, buffers, input, out, routes);
  } else {
    run_mlp(pool, config.mlp, weights.mlp, buffers, {input, weights.mlp.down, out, {}, !separate});
  }
  if (separate) {
    if (config.place == model::NormPlace::output) apply_norm(pool, config.norm, weights.mlp_norm, out, out);
    if (config.place == model::NormPlace::both)
      apply_norm(pool, config.norm, weights.mlp_output_norm, out, out);
    if (edit) edit(out);
    add_rows(pool, out, x, config.residual_multiplier);
  }
  if (config.place == model::NormPlace::post) apply_norm(pool, config.norm, weights.mlp_norm, x, x);
}

}  // namespace

ExpertRoute route_of(const model::ExpertsConfig& config, std::span<const float> scores) {
  std::vector<std::size_t> all(scores.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::size_t> picked = all;
  std::ranges::stable_sort(picked, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  picked.resize(config.per_token);
  std::vector<double> weights;
  if (config.softmax_after_topk) {
    weights = softmax_over(scores, picked);
  } else {
    const std::vector<double> all_weights = softmax_over(scores, all);
    for (const std::size_t e : picked) weights.push_back(all_weights[e]);
  }
  const double sum = config.renormalised ? std::accumulate(weights.begin(), weights.end(), 0.0) : 1;
  ExpertRoute route{picked, {}};  // a copy, because `picked` has the capacity of all experts
  for (const double weight : weights) route.weights.push_back(static_cast<float>(weight / sum));
  return route;
}

void add_mlp(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
             MlpBuffers& buffers, MatrixView<float> x, std::vector<ExpertRoute>* routes,
             const EditMlp& edit) {
  if (config.mlp.width == 0) return;
  for (std::size_t first = 0; first < x.rows; first += kMlpRows) {
    std::function<void(MatrixView<float>)> edit_rows;
    if (edit) edit_rows = [&edit, first](MatrixView<float> term) { edit(first, term); };
    add_mlp_of_rows(pool, config, weights, buffers, x.row_range(first, std::min(kMlpRows, x.rows - first)),
                    routes, edit_rows);
  }
}

}  // namespace attnctl::forward
