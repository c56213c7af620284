#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/reference_math.hpp"

namespace attnctl::reference {
namespace {

OwnedMatrix<double> run_one(const MlpConfig& config, const ExpertsConfig& experts, const MlpWeights& weights,
                            const OwnedMatrix<double>& x, Pool& pool) {
  OwnedMatrix<double> inner = apply(weights.up, x.view(), pool);
  const OwnedMatrix<double> gate = config.gated ? apply(weights.gate, x.view(), pool) : OwnedMatrix<double>();
  for (std::size_t i = 0; i < inner.values().size(); ++i) {
    double& value = inner.values()[i];
    if (const double limit = experts.limit; limit > 0) {
      const double g = std::min(gate.values()[i], limit);
      value = (std::clamp(value, -limit, limit) + 1) * g / (1 + std::exp(-experts.alpha * g));
    } else {
      value = config.gated ? value * activate(config.activation, gate.values()[i])
                           : activate(config.activation, value);
    }
  }
  return apply(weights.down, inner.view(), pool);
}

/// The weight of each expert for one row of router scores; 0 for those that are not picked.
std::vector<double> expert_weights(const ExpertsConfig& config, std::span<const double> scores) {
  std::vector<double> weights(scores.size());
  softmax(scores, weights);
  double kept = 0;
  for (std::size_t e = 0; e < weights.size(); ++e) {
    std::size_t better = 0;
    for (std::size_t other = 0; other < scores.size(); ++other) {
      if (scores[other] > scores[e] || (scores[other] == scores[e] && other < e)) ++better;
    }
    if (better >= config.per_token) weights[e] = -1;
    kept += std::max(weights[e], 0.0);
  }
  // A softmax of the picked alone is that of all, divided by what the picked have of it.
  const double by = config.renormalised || config.softmax_after_topk ? kept : 1;
  for (double& weight : weights) weight = std::max(weight, 0.0) / by;
  return weights;
}

}  // namespace

OwnedMatrix<double> run_mlp(const LayerConfig& config, const LayerWeights& weights,
                            const OwnedMatrix<double>& x, Pool& pool) {
  if (config.experts.count == 0) return run_one(config.mlp, {}, weights.mlp, x, pool);
  const OwnedMatrix<double> scores = apply(weights.router, x.view(), pool);
  OwnedMatrix<double> sum(x.rows(), x.cols());
  std::vector<std::vector<double>> shares;
  for (std::size_t r = 0; r < x.rows(); ++r)
    shares.push_back(expert_weights(config.experts, scores.view().row(r)));
  for (std::size_t e = 0; e < config.experts.count; ++e) {
    const OwnedMatrix<double> made = run_one(config.mlp, config.experts, weights.experts[e], x, pool);
    for (std::size_t r = 0; r < x.rows(); ++r) {
      for (std::size_t c = 0; c < x.cols(); ++c) sum(r, c) += shares[r][e] * made(r, c);
    }
  }
  if (config.experts.shared_width == 0) return sum;
  const OwnedMatrix<double> made = run_one(config.mlp, {}, weights.shared, x, pool);
  const OwnedMatrix<double> factor = apply(weights.shared_factor, x.view(), pool);
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (std::size_t c = 0; c < x.cols(); ++c) sum(r, c) += made(r, c) / (1 + std::exp(-factor(r, 0)));
  }
  return sum;
}

}  // namespace attnctl::reference
