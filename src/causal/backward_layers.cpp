#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "causal/backward.hpp"
#include "forward/layers/layers.hpp"

namespace attnctl::causal {
namespace {

/// Returns the product with the transpose of a stored weight: the same data in the other orientation.
model::Linear transposed(const model::StoredMatrix& weight) {
  const bool in_out = weight.orientation == model::Orientation::in_out;
  return {weight.values, in_out ? model::Orientation::out_in : model::Orientation::in_out, {}};
}

FloatRows product(Pool& pool, const model::Linear& linear, FloatView x) {
  FloatRows y(x.rows, linear.out());
  forward::run_dense(pool, forward::Dense{x, linear, y.view()});
  return y;
}

/// Changes d from d_y to d_x for one row of a norm.
void back_norm_row(const model::NormConfig& config, const model::NormWeights& weights,
                   std::span<const float> x, std::span<float> d) {
  const auto width = static_cast<double>(x.size());
  double mean = 0, squares = 0;
  if (config.kind == model::NormKind::layer) {
    for (const float value : x) mean += double{value};
    mean /= width;
  }
  for (const float value : x) squares += (double{value} - mean) * (double{value} - mean);
  const double scale = 1 / std::sqrt(squares / width + double{config.eps});
  double along = 0, mean_d = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!weights.gain.empty()) d[i] *= weights.gain[i];
    along += double{d[i]} * (double{x[i]} - mean);
    mean_d += double{d[i]};
  }
  along *= scale * scale / width;
  mean_d = config.kind == model::NormKind::layer ? mean_d / width : 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    d[i] = static_cast<float>(scale * (double{d[i]} - mean_d - along * (double{x[i]} - mean)));
}

}  // namespace

FloatRows projected(Pool& pool, const model::Linear& linear, FloatView x) {
  if (!linear.factorised()) return product(pool, linear, x);
  const FloatRows inner = product(pool, linear.first_product(), x);
  return product(pool, linear.last_product(), inner.view());
}

FloatRows back_dense(Pool& pool, const model::Linear& linear, FloatView d_y) {
  FloatRows d_x = product(pool, transposed(linear.last()), d_y);
  if (!linear.factorised()) return d_x;
  return product(pool, transposed(linear.first), d_x.view());
}

FloatRows normalised(Pool& pool, const model::NormConfig& config, const model::NormWeights& weights,
                     FloatView x) {
  FloatRows y(x.rows, x.cols);
  forward::apply_norm(pool, config, weights, x, y.view());
  return y;
}

void back_norm(Pool& pool, const model::NormConfig& config, const model::NormWeights& weights, FloatView x,
               MatrixView<float> d) {
  if (config.kind == model::NormKind::none) return;
  forward::for_rows(pool, x.rows, x.cols,
                    [&](std::size_t r) { back_norm_row(config, weights, x.row(r), d.row(r)); });
}

Activated activated(model::Activation activation, float x) {
  switch (activation) {
    case model::Activation::gelu_erf: {
      const float share = 0.5F * (1 + std::erf(x / std::numbers::sqrt2_v<float>));
      const float density =
          std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
      return {x * share, share + x * density};
    }
    case model::Activation::gelu_tanh: {
      constexpr float kRoot = 0.7978845608F;  // sqrt(2 / pi)
      constexpr float kCubic = 0.044715F;
      const float tanh = std::tanh(kRoot * (x + kCubic * x * x * x));
      const float slope = (1 - tanh * tanh) * kRoot * (1 + 3 * kCubic * x * x);
      return {0.5F * x * (1 + tanh), 0.5F * (1 + tanh + x * slope)};
    }
    case model::Activation::silu: {
      const float sigmoid = 1 / (1 + std::exp(-x));
      return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
    }
    case model::Activation::relu:
      return {std::max(x, 0.0F), x > 0 ? 1.0F : 0.0F};
    case model::Activation::relu_squared: {
      const float positive = std::max(x, 0.0F);
      return {positive * positive, 2 * positive};
    }
    case model::Activation::tanh: {
      const float tanh = std::tanh(x);
      return {tanh, 1 - tanh * tanh};
    }
  }
  return {x, 1};
}

}  // namespace attnctl::causal
