#include "reference/gradient/backward_math.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include "linalg/gemm.hpp"
#include "reference/reference_math.hpp"

namespace attnctl::backward {
namespace {

/// What a row is normalised by.
struct NormRow {
  double mean = 0;
  double deviation = 1;
};

NormRow statistics(const NormConfig& config, std::span<const double> x) {
  const auto width = static_cast<double>(x.size());
  NormRow row;
  if (config.kind == NormKind::layer) {
    for (const double value : x) row.mean += value / width;
  }
  double variance = 0;
  for (const double value : x) variance += (value - row.mean) * (value - row.mean) / width;
  row.deviation = std::sqrt(variance + static_cast<double>(config.eps));
  return row;
}

}  // namespace

OwnedMatrix<double> through(const Linear& linear, MatrixView<const double> d_y) {
  const OwnedMatrix<double> weight = linear.in_out_double();
  OwnedMatrix<double> d_x(d_y.rows, weight.rows());
  gemm_nt(d_y, weight.view(), d_x.view());
  return d_x;
}

OwnedMatrix<double> through(const NormConfig& config, const NormWeights& weights, MatrixView<const double> x,
                            MatrixView<const double> d_y) {
  OwnedMatrix<double> d_x(x.rows, x.cols);
  const auto width = static_cast<double>(x.cols);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const auto to = d_x.view().row(r);
    for (std::size_t c = 0; c < x.cols; ++c) {
      const double gain = weights.gain.empty() ? 1 : static_cast<double>(weights.gain[c]);
      to[c] = d_y(r, c) * gain;
    }
    if (config.kind == NormKind::none) continue;
    const NormRow row = statistics(config, x.row(r));
    double mean = 0;   // of the gradient: what the taken-off mean takes off
    double along = 0;  // of gradient times normalised x: what the division takes off
    for (std::size_t c = 0; c < x.cols; ++c) {
      mean += to[c] / width;
      along += to[c] * (x(r, c) - row.mean) / row.deviation / width;
    }
    if (config.kind != NormKind::layer) mean = 0;
    for (std::size_t c = 0; c < x.cols; ++c)
      to[c] = (to[c] - mean - along * (x(r, c) - row.mean) / row.deviation) / row.deviation;
  }
  return d_x;
}

double slope(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu_erf:
      return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
             x * std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    case Activation::gelu_tanh: {
      const double root = std::sqrt(2 / std::numbers::pi);
      const double tangent = std::tanh(root * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + tangent) + 0.5 * x * (1 - tangent * tangent) * root * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::silu: {
      const double sigmoid = 1 / (1 + std::exp(-x));
      return sigmoid * (1 + x * (1 - sigmoid));
    }
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::relu_squared:
      return x < 0 ? 0 : 2 * x;
    case Activation::tanh: {
      const double tangent = std::tanh(x);
      return 1 - tangent * tangent;
    }
  }
  return 1;
}

void through_rotation(const RotaryConfig& rotary, std::size_t length, MatrixView<double> d_y) {
  // Turning back is turning the mirrored pairs: (a, -b).
  const std::size_t pairs = rotary.dims / 2;
  const bool half = rotary.pairing == RotaryPairing::half;
  const auto mirror = [&] {
    for (std::size_t r = 0; r < d_y.rows; ++r) {
      for (std::size_t j = 0; j < pairs; ++j) {
        double& second = d_y(r, half ? j + pairs : 2 * j + 1);
        second = -second;
      }
    }
  };
  mirror();
  reference::rotate(rotary, length, d_y);
  mirror();
}

void through_softmax(MatrixView<const double> pattern, MatrixView<double> d_pattern) {
  for (std::size_t i = 0; i < pattern.rows; ++i) {
    double mean = 0;
    for (std::size_t j = 0; j < pattern.cols; ++j) mean += pattern(i, j) * d_pattern(i, j);
    for (std::size_t j = 0; j < pattern.cols; ++j) d_pattern(i, j) = pattern(i, j) * (d_pattern(i, j) - mean);
  }
}

}  // namespace attnctl::backward
