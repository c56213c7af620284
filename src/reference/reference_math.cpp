#include "reference/reference_math.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace attnctl::reference {
namespace {

constexpr std::size_t block_outputs = 64;

/// Outputs [first, first + count) of a linear layer: its weights widened to [in, count], then row by row.
void apply_block(const Linear& linear, MatrixView<const double> x, MatrixView<double> y) {
  const std::size_t in = linear.in();
  const std::size_t count = linear.out();
  const OwnedMatrix<double> weights = linear.in_out_double();
  for (std::size_t r = 0; r < x.rows; ++r) {
    double* out = y.row(r).data();
    for (std::size_t j = 0; j < count; ++j) out[j] = 0;
    for (std::size_t i = 0; i < in; ++i) {
      const double value = x(r, i);
      const double* row = weights.view().row(i).data();
      for (std::size_t j = 0; j < count; ++j) out[j] += value * row[j];
    }
    for (std::size_t j = 0; j < linear.bias.size(); ++j) out[j] += linear.bias[j];
  }
}

}  // namespace

OwnedMatrix<double> apply(const Linear& linear, MatrixView<const double> x, Pool& pool) {
  if (linear.factorised()) {
    return apply(linear.last_product(), apply(linear.first_product(), x, pool).view(), pool);
  }
  OwnedMatrix<double> y(x.rows, linear.out());
  const std::size_t blocks = (linear.out() + block_outputs - 1) / block_outputs;
  pool.run(blocks, [&](std::size_t block, std::size_t) {
    const std::size_t first = block * block_outputs;
    const std::size_t count = std::min(block_outputs, linear.out() - first);
    apply_block(linear.outputs(first, count), x, y.view().col_range(first, count));
  });
  return y;
}

OwnedMatrix<double> apply(const NormConfig& config, const NormWeights& weights, MatrixView<const double> x) {
  OwnedMatrix<double> y(x.rows, x.cols);
  const auto width = static_cast<double>(x.cols);
  for (std::size_t r = 0; r < x.rows; ++r) {
    double mean = 0;
    if (config.kind == NormKind::layer) {
      for (std::size_t c = 0; c < x.cols; ++c) mean += x(r, c) / width;
    }
    double variance = 0;
    for (std::size_t c = 0; c < x.cols; ++c) variance += (x(r, c) - mean) * (x(r, c) - mean) / width;
    const double deviation = config.kind == NormKind::none ? 1 : std::sqrt(variance + config.eps);
    for (std::size_t c = 0; c < x.cols; ++c) {
      const double gain = weights.gain.empty() ? 1 : static_cast<double>(weights.gain[c]);
      const double bias = weights.bias.empty() ? 0 : weights.bias[c];
      y(r, c) = (x(r, c) - mean) / deviation * gain + bias;
    }
  }
  return y;
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh: {
      const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1 + std::tanh(inner));
    }
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::relu:
      return x < 0 ? 0 : x;  // NaN stays NaN
    case Activation::relu_squared:
      return x < 0 ? 0 : x * x;
    case Activation::tanh:
      return std::tanh(x);
  }
  return x;
}

void rotate(const RotaryConfig& rotary, std::size_t length, MatrixView<double> x) {
  const bool is_long = !rotary.long_inverse_frequency.empty() && length > rotary.long_from;
  const std::vector<float>& inverse = is_long ? rotary.long_inverse_frequency : rotary.inverse_frequency;
  const std::size_t pairs = rotary.dims / 2;
  for (std::size_t position = 0; position < x.rows; ++position) {
    for (std::size_t j = 0; j < pairs; ++j) {
      const float angle = static_cast<float>(position) * inverse[j];
      const double cosine = std::cos(angle) * rotary.attention_factor;  // both float32
      const double sine = std::sin(angle) * rotary.attention_factor;
      const bool half = rotary.pairing == RotaryPairing::half;
      double& first = x(position, half ? j : 2 * j);
      double& second = x(position, half ? j + pairs : 2 * j + 1);
      const double turned = first * cosine - second * sine;
      second = second * cosine + first * sine;
      first = turned;
    }
  }
}

double sinusoid(std::size_t position, std::size_t column, std::size_t width) {
  const double exponent = static_cast<double>(column - column % 2) / static_cast<double>(width);
  const double angle = static_cast<double>(position) / std::pow(10000.0, exponent);
  return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

void softmax(std::span<const double> scores, std::span<double> pattern) {
  const double masked = -std::numeric_limits<double>::infinity();
  double largest = masked;
  for (const double score : scores) {
    if (!(score <= largest)) largest = score;  // a NaN stays
    if (std::isnan(largest)) break;
  }
  double sum = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    pattern[j] = scores[j] == masked ? 0 : std::exp(scores[j] - largest);
    sum += pattern[j];
  }
  if (largest == masked) return;
  for (double& value : pattern) value /= sum;
}

void add(MatrixView<const double> x, OwnedMatrix<double>& sum) {
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t c = 0; c < x.cols; ++c) sum(r, c) += x(r, c);
  }
}

}  // namespace attnctl::reference
