#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "causal/backward.hpp"
#include "forward/layers/layers.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::causal {
namespace {

/// One MLP or expert f, whose output for row r is multiplied by shares[r].
struct SharedMlp {
  const model::MlpConfig& config;
  model::ExpertsConfig experts;  // only `limit` and `alpha` are used; empty for an MLP
  const model::MlpWeights& weights;
  std::span<const float> shares;  // [rows]; empty: all 1
};

/// The inner values of one element of a gated MLP: act(gate) up, and its derivatives.
struct GatedValue {
  float value = 0, of_up = 0, of_gate = 0;
};

GatedValue gated_value(const SharedMlp& mlp, float up, float gate) {
  const float limit = mlp.experts.limit;
  if (limit == 0) {
    const Activated act = activated(mlp.config.activation, gate);
    return {act.value * up, act.value, act.slope * up};
  }
  const auto alpha = static_cast<float>(mlp.experts.alpha);
  const float g = std::min(gate, limit);
  const float sigmoid = 1 / (1 + std::exp(-alpha * g));
  const float factor = std::clamp(up, -limit, limit) + 1;
  return {factor * g * sigmoid, std::abs(up) <= limit ? g * sigmoid : 0,
          gate <= limit ? factor * sigmoid * (1 + alpha * g * (1 - sigmoid)) : 0};
}

/// The derivatives for the product share(r) f(x(r)).
struct SharedMlpDerivatives {
  FloatRows d_x;                // [rows, d]
  std::vector<float> d_shares;  // [rows]; empty without shares
};

/// Returns the derivatives for a SharedMlp, given d_output [rows, d].
SharedMlpDerivatives back_shared_mlp(Pool& pool, const SharedMlp& mlp, FloatView x, FloatView d_output) {
  FloatRows up = projected(pool, mlp.weights.up, x);
  FloatRows gate = mlp.config.gated ? projected(pool, mlp.weights.gate, x) : FloatRows();
  const FloatRows d_inner = back_dense(pool, mlp.weights.down, d_output);
  const std::span<const float> bias = mlp.weights.down.bias;
  SharedMlpDerivatives result;
  result.d_shares.resize(mlp.shares.size());
  // Replaces `up` and `gate` by their derivatives.
  forward::for_rows(pool, up.rows(), up.cols(), [&](std::size_t r) {
    const float share = mlp.shares.empty() ? 1 : mlp.shares[r];
    double output = 0;  // f(x) times d_output
    for (std::size_t c = 0; c < up.cols(); ++c) {
      const float d = d_inner(r, c);
      if (mlp.config.gated) {
        const GatedValue inner = gated_value(mlp, up(r, c), gate(r, c));
        output += double{d} * double{inner.value};
        up(r, c) = share * d * inner.of_up;
        gate(r, c) = share * d * inner.of_gate;
      } else {
        const Activated inner = activated(mlp.config.activation, up(r, c));
        output += double{d} * double{inner.value};
        up(r, c) = share * d * inner.slope;
      }
    }
    if (mlp.shares.empty()) return;
    for (std::size_t c = 0; c < bias.size(); ++c) output += double{d_output(r, c)} * double{bias[c]};
    result.d_shares[r] = static_cast<float>(output);
  });
  result.d_x = back_dense(pool, mlp.weights.up, up.view());
  if (mlp.config.gated)
    forward::add_rows(pool, back_dense(pool, mlp.weights.gate, gate.view()).view(), result.d_x.view());
  return result;
}

FloatRows gathered(FloatView from, std::span<const std::size_t> rows) {
  FloatRows to(rows.size(), from.cols);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(from.row(rows[i]), to.view().row(i).begin());
  return to;
}

/// Writes the derivatives of the scores of a router for one token. `d_weights` belongs to the chosen experts
/// of the route.
void back_route(const model::ExpertsConfig& config, const forward::ExpertRoute& route,
                std::span<const float> d_weights, std::span<float> scores) {
  double along = 0;
  for (std::size_t i = 0; i < d_weights.size(); ++i) along += double{route.weights[i]} * double{d_weights[i]};
  if (config.renormalised || config.softmax_after_topk) {  // a softmax over the chosen experts
    std::ranges::fill(scores, 0.0F);
  } else {
    linalg::kernels().softmax(scores, scores);
    for (float& score : scores) score = static_cast<float>(-along * double{score});
    along = 0;
  }
  for (std::size_t i = 0; i < d_weights.size(); ++i)
    scores[route.experts[i]] += static_cast<float>(double{route.weights[i]} * (double{d_weights[i]} - along));
}

/// Adds the derivatives of the expert that all tokens use, whose factor is a sigmoid.
void add_back_shared_expert(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
                            FloatView x, FloatView d_output, MatrixView<float> d_x) {
  FloatRows factor = projected(pool, weights.shared_factor, x);  // [rows, 1]
  for (float& value : factor.values()) value = 1 / (1 + std::exp(-value));
  const SharedMlpDerivatives d =
      back_shared_mlp(pool, {config.mlp, {}, weights.shared, factor.values()}, x, d_output);
  forward::add_rows(pool, d.d_x.view(), d_x);
  for (std::size_t r = 0; r < factor.rows(); ++r)
    factor(r, 0) = d.d_shares[r] * factor(r, 0) * (1 - factor(r, 0));
  forward::add_rows(pool, back_dense(pool, weights.shared_factor, factor.view()).view(), d_x);
}

FloatRows back_experts(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
                       FloatView x, FloatView d_output) {
  FloatRows scores = projected(pool, weights.router, x);
  std::vector<forward::ExpertRoute> routes;
  std::vector<std::vector<float>> d_weights;  // [rows][per_token]
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> users(
      config.experts.count);  // rows, and the index of the expert in the route of the row
  for (std::size_t r = 0; r < x.rows; ++r) {
    routes.push_back(forward::route_of(config.experts, scores.view().row(r)));
    d_weights.emplace_back(routes.back().experts.size());
    for (std::size_t i = 0; i < routes.back().experts.size(); ++i)
      users[routes.back().experts[i]].emplace_back(r, i);
  }
  FloatRows d_x(x.rows, x.cols);
  for (std::size_t e = 0; e < config.experts.count; ++e) {
    std::vector<std::size_t> rows;
    std::vector<float> shares;
    for (const auto& [row, i] : users[e]) {
      rows.push_back(row);
      shares.push_back(routes[row].weights[i]);
    }
    if (rows.empty()) continue;
    const SharedMlpDerivatives d =
        back_shared_mlp(pool, {config.mlp, config.experts, weights.experts[e], shares},
                        gathered(x, rows).view(), gathered(d_output, rows).view());
    for (std::size_t u = 0; u < rows.size(); ++u) {
      linalg::kernels().add(d.d_x.view().row(u), d_x.view().row(rows[u]));
      d_weights[rows[u]][users[e][u].second] = d.d_shares[u];
    }
  }
  for (std::size_t r = 0; r < x.rows; ++r)
    back_route(config.experts, routes[r], d_weights[r], scores.view().row(r));
  forward::add_rows(pool, back_dense(pool, weights.router, scores.view()).view(), d_x.view());
  if (config.experts.shared_width > 0) add_back_shared_expert(pool, config, weights, x, d_output, d_x.view());
  return d_x;
}

}  // namespace

FloatRows back_mlp(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
                   FloatView x, FloatView d_output) {
  FloatRows d_x(x.rows, x.cols);
  for (std::size_t first = 0; first < x.rows; first += forward::kMlpRows) {
    const std::size_t rows = std::min(forward::kMlpRows, x.rows - first);
    const FloatView input = x.row_range(first, rows);
    const FloatView d = d_output.row_range(first, rows);
    const FloatRows part = config.experts.count > 0
                               ? back_experts(pool, config, weights, input, d)
                               : back_shared_mlp(pool, {config.mlp, {}, weights.mlp, {}}, input, d).d_x;
    forward::add_rows(pool, part.view(), d_x.view().row_range(first, rows));
  }
  return d_x;
}

}  // namespace attnctl::causal
