#include "reference/layers.hpp"

#include <algorithm>
#include <numbers>

namespace attnctl::reference {

Matrix weight_of(const Linear& linear) {
  return linalg::to_matrix(linear.in_out_double().view());
}

Matrix apply(const Linear& linear, const Matrix& x, Pool& pool) {
  if (linear.factorised()) return apply(linear.last_product(), apply(linear.first_product(), x, pool), pool);
  constexpr std::size_t kBlock = 64;  // outputs per task: W is widened to float64 a block at a time
  Matrix y = Matrix::from_shape({x.shape(0), linear.out()});
  pool.run((linear.out() + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t) {
    const std::size_t first = block * kBlock;
    const Linear part = linear.outputs(first, std::min(kBlock, linear.out() - first));
    auto outputs = xt::view(y, xt::all(), xt::range(first, first + part.out()));
    outputs = linalg::dot(x, weight_of(part));
    if (!part.bias.empty()) outputs += linalg::to_vector(part.bias);
  });
  return y;
}

NormalisedRows normalise(const NormConfig& config, const Matrix& x) {
  Matrix centred = x;
  if (config.kind == NormKind::layer) centred -= linalg::row_mean(x);
  const Matrix variance = linalg::row_mean(xt::square(centred));
  const Matrix deviation = xt::sqrt(variance + double{config.eps});
  return {centred / deviation, deviation};
}

Vector gain_of(const NormWeights& weights, std::size_t width) {
  return weights.gain.empty() ? Vector(xt::ones<double>({width})) : linalg::to_vector(weights.gain);
}

Matrix apply(const NormConfig& config, const NormWeights& weights, const Matrix& x) {
  if (config.kind == NormKind::none) return x;
  Matrix y = normalise(config, x).values * gain_of(weights, x.shape(1));
  if (!weights.bias.empty()) y += linalg::to_vector(weights.bias);
  return y;
}

Matrix activate(Activation activation, const Matrix& x) {
  switch (activation) {
    case Activation::gelu_erf:
      return 0.5 * x * (1 + xt::erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + xt::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + xt::exp(-x));
    case Activation::relu:
      return xt::where(x < 0, 0.0, x);  // keeps NaN
    case Activation::relu_squared:
      return xt::where(x < 0, 0.0, x * x);
    case Activation::tanh:
      return xt::tanh(x);
  }
  return x;
}

namespace {

Matrix run_one_mlp(const MlpConfig& config, const ExpertsConfig& experts, const MlpWeights& weights,
                   const Matrix& x, Pool& pool) {
  const Matrix up = apply(weights.up, x, pool);
  if (!config.gated) return apply(weights.down, activate(config.activation, up), pool);
  const Matrix gate = apply(weights.gate, x, pool);
  const double limit = experts.limit;
  if (limit == 0) return apply(weights.down, up * activate(config.activation, gate), pool);
  const Matrix g = xt::minimum(limit, gate);
  return apply(weights.down, (xt::clip(up, -limit, limit) + 1) * g / (1 + xt::exp(-experts.alpha * g)), pool);
}

/// Returns the weight of each expert for each token [n, experts]; 0 for those that the router does not pick.
Matrix expert_weights(const ExpertsConfig& config, const Matrix& scores) {
  Matrix weights = xt::exp(scores - linalg::row_max(scores));
  weights /= linalg::row_sum(weights);
  for (std::size_t r = 0; r < scores.shape(0); ++r) {
    for (std::size_t e = 0; e < config.count; ++e) {
      std::size_t better = 0;
      for (std::size_t other = 0; other < config.count; ++other) {
        if (scores(r, other) > scores(r, e) || (scores(r, other) == scores(r, e) && other < e)) ++better;
      }
      if (better >= config.per_token) weights(r, e) = 0;
    }
  }
  // The softmax of the picked scores is the softmax of all scores, divided by its sum over the picked.
  if (config.renormalised || config.softmax_after_topk) weights /= linalg::row_sum(weights);
  return weights;
}

}  // namespace

Matrix run_mlp(const LayerConfig& config, const LayerWeights& weights, const Matrix& x, Pool& pool) {
  if (config.experts.count == 0) return run_one_mlp(config.mlp, {}, weights.mlp, x, pool);
  const Matrix shares = expert_weights(config.experts, apply(weights.router, x, pool));
  Matrix sum = xt::zeros<double>(x.shape());
  for (std::size_t e = 0; e < config.experts.count; ++e) {
    sum += xt::view(shares, xt::all(), xt::range(e, e + 1)) *
           run_one_mlp(config.mlp, config.experts, weights.experts[e], x, pool);
  }
  if (config.experts.shared_width > 0) {
    sum += run_one_mlp(config.mlp, {}, weights.shared, x, pool) /
           (1 + xt::exp(-apply(weights.shared_factor, x, pool)));
  }
  return sum;
}

Matrix add_convolution(const LayerConfig& config, const LayerWeights& weights, const Matrix& embeddings,
                       const Matrix& x) {
  if (!config.convolution) return x;
  const auto& [kernel, groups, activation] = *config.convolution;
  const std::size_t length = x.shape(0);
  const std::size_t channels = x.shape(1) / groups;
  const std::size_t side = (kernel - 1) / 2;
  const Matrix filter = weight_of(weights.convolution);  // [channels of a group * kernel, d]
  Matrix padded = xt::zeros<double>({length + 2 * side, x.shape(1)});
  xt::view(padded, xt::range(side, side + length), xt::all()) = embeddings;
  Matrix sum = xt::broadcast(linalg::to_vector(weights.convolution.bias), x.shape());
  for (std::size_t group = 0; group < groups; ++group) {
    const auto columns = [&] { return xt::range(group * channels, (group + 1) * channels); };
    for (std::size_t t = 0; t < kernel; ++t) {
      xt::view(sum, xt::all(), columns()) +=
          linalg::dot(xt::view(padded, xt::range(t, t + length), columns()),
                      xt::view(filter, xt::range(t, channels * kernel, kernel), columns()));
    }
  }
  return apply(config.norm, weights.convolution_norm, x + activate(activation, sum));
}

}  // namespace attnctl::reference
