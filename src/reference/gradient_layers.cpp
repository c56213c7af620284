#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/gradient.hpp"

namespace attnctl::reference {
namespace {

using linalg::dot;

/// Returns d_x of one MLP or expert, given d_output.
Matrix one_mlp_gradient(const model::MlpConfig& config, const model::ExpertsConfig& experts,
                        const model::MlpWeights& weights, const Matrix& x, const Matrix& d_output,
                        Pool& pool) {
  const Matrix up = apply(weights.up, x, pool);
  const Matrix d_inner = backward(weights.down, d_output, pool);
  if (!config.gated) return backward(weights.up, d_inner * derivative(config.activation, up), pool);
  const Matrix gate = apply(weights.gate, x, pool);
  Matrix d_up, d_gate;
  if (const double limit = experts.limit; limit == 0) {
    d_up = d_inner * activate(config.activation, gate);
    d_gate = d_inner * up * derivative(config.activation, gate);
  } else {
    const Matrix g = xt::minimum(limit, gate);
    const Matrix sigmoid = 1 / (1 + xt::exp(-experts.alpha * g));
    const Matrix factor = xt::clip(up, -limit, limit) + 1;
    d_up = xt::where(xt::abs(up) <= limit, d_inner * g * sigmoid, 0.0);
    d_gate =
        xt::where(gate <= limit, d_inner * factor * sigmoid * (1 + experts.alpha * g * (1 - sigmoid)), 0.0);
  }
  return backward(weights.up, d_up, pool) + backward(weights.gate, d_gate, pool);
}

/// Returns d_scores [n, experts] of the router, given the derivatives of expert_weights(). An expert that the
/// router does not choose for a token has the weight 0.
Matrix router_gradient(const model::ExpertsConfig& config, const Matrix& scores, const Matrix& shares,
                       const Matrix& d_shares) {
  if (config.renormalised || config.softmax_after_topk)  // a softmax over the chosen experts
    return shares * (d_shares - linalg::row_sum(shares * d_shares));
  Matrix all = xt::exp(scores - linalg::row_max(scores));
  all /= linalg::row_sum(all);
  const Matrix along = linalg::row_sum(shares * d_shares);
  return shares * d_shares - all * along;
}

}  // namespace

Matrix backward(const model::Linear& linear, const Matrix& d_y, Pool& pool) {
  if (linear.factorised())
    return backward(linear.first_product(), backward(linear.last_product(), d_y, pool), pool);
  // Number of inputs per task. Each task converts only its part of W to float64.
  constexpr std::size_t kInputs = 64;
  Matrix d_x = Matrix::from_shape({d_y.shape(0), linear.in()});
  pool.run((linear.in() + kInputs - 1) / kInputs, [&](std::size_t block, std::size_t) {
    const std::size_t first = block * kInputs;
    const std::size_t count = std::min(kInputs, linear.in() - first);
    const Matrix weight = linalg::to_matrix(linear.inputs_double(first, count).view());
    xt::view(d_x, xt::all(), xt::range(first, first + count)) = dot(d_y, xt::transpose(weight));
  });
  return d_x;
}

Matrix backward(const model::NormConfig& config, const model::NormWeights& weights, const Matrix& x,
                const Matrix& d_y) {
  if (config.kind == model::NormKind::none) return d_y;
  const auto [y, deviation] = normalise(config, x);
  Matrix d = d_y * gain_of(weights, x.shape(1));
  const Matrix along_y = linalg::row_mean(d * y);
  if (config.kind == model::NormKind::layer) d -= linalg::row_mean(Matrix(d));
  return (d - along_y * y) / deviation;
}

Matrix derivative(model::Activation activation, const Matrix& x) {
  switch (activation) {
    case model::Activation::gelu_erf: {
      const double density = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
      return 0.5 * (1 + xt::erf(x / std::numbers::sqrt2)) + x * xt::exp(-x * x / 2) * density;
    }
    case model::Activation::gelu_tanh: {
      const double root = std::sqrt(2 / std::numbers::pi);
      const Matrix tanh = xt::tanh(root * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * root * (1 + 3 * 0.044715 * x * x);
    }
    case model::Activation::silu: {
      const Matrix sigmoid = 1 / (1 + xt::exp(-x));
      return sigmoid * (1 + x * (1 - sigmoid));
    }
    case model::Activation::relu:
      return xt::where(x > 0, 1.0, 0.0);
    case model::Activation::relu_squared:
      return xt::where(x < 0, 0.0, 2 * x);
    case model::Activation::tanh:
      return 1 - xt::square(xt::tanh(x));
  }
  return xt::ones<double>(x.shape());
}

Matrix mlp_gradient(const model::LayerConfig& config, const model::LayerWeights& weights, const Matrix& x,
                    const Matrix& d_output, Pool& pool) {
  const model::ExpertsConfig& experts = config.experts;
  if (experts.count == 0) return one_mlp_gradient(config.mlp, {}, weights.mlp, x, d_output, pool);
  const Matrix scores = apply(weights.router, x, pool);
  const Matrix shares = expert_weights(experts, scores);
  Matrix d_shares = xt::zeros_like(shares);
  Matrix d_x = xt::zeros_like(x);
  for (std::size_t e = 0; e < experts.count; ++e) {
    const model::MlpWeights& expert = weights.experts[e];
    const Matrix share = xt::view(shares, xt::all(), xt::range(e, e + 1));
    const Matrix output = run_one_mlp(config.mlp, experts, expert, x, pool);
    xt::view(d_shares, xt::all(), xt::range(e, e + 1)) = linalg::row_sum(d_output * output);
    d_x += one_mlp_gradient(config.mlp, experts, expert, x, d_output * share, pool);
  }
  d_x += backward(weights.router, router_gradient(experts, scores, shares, d_shares), pool);
  if (experts.shared_width > 0) {
    const Matrix factor = 1 / (1 + xt::exp(-apply(weights.shared_factor, x, pool)));  // [n, 1]
    const Matrix output = run_one_mlp(config.mlp, {}, weights.shared, x, pool);
    const Matrix d_factor = linalg::row_sum(d_output * output);
    d_x += one_mlp_gradient(config.mlp, {}, weights.shared, x, d_output * factor, pool);
    d_x += backward(weights.shared_factor, d_factor * factor * (1 - factor), pool);
  }
  return d_x;
}

ConvolutionGradient convolution_gradient(const model::LayerConfig& config, const model::LayerWeights& weights,
                                         const Matrix& embeddings, const Matrix& x, const Matrix& d_output) {
  const auto& [kernel, groups, activation] = *config.convolution;
  const std::size_t length = x.shape(0);
  const std::size_t channels = x.shape(1) / groups;
  const std::size_t side = (kernel - 1) / 2;
  const Matrix sum = convolve(*config.convolution, weights.convolution, embeddings);
  const Matrix d_x = backward(config.norm, weights.convolution_norm, x + activate(activation, sum), d_output);
  const Matrix d_sum = d_x * derivative(activation, sum);
  const Matrix filter = weight_of(weights.convolution);  // [input channels of a group * kernel, d]
  Matrix d_padded = xt::zeros<double>({length + 2 * side, x.shape(1)});
  for (std::size_t group = 0; group < groups; ++group) {
    const auto columns = [&] { return xt::range(group * channels, (group + 1) * channels); };
    const Matrix d_group = xt::view(d_sum, xt::all(), columns());
    for (std::size_t t = 0; t < kernel; ++t) {
      const Matrix part = xt::view(filter, xt::range(t, channels * kernel, kernel), columns());
      xt::view(d_padded, xt::range(t, t + length), columns()) += dot(d_group, xt::transpose(part));
    }
  }
  return {xt::view(d_padded, xt::range(side, side + length), xt::all()), d_x};
}

}  // namespace attnctl::reference
