#include "causal/frozen_norm.hpp"

#include <cmath>

namespace attnctl::causal {
namespace {

/// Returns the mean that a norm subtracts from a row.
double subtracted_mean(model::NormKind kind, std::span<const double> row) {
  double mean = 0;
  if (kind != model::NormKind::layer) return mean;
  for (const double value : row) mean += value / static_cast<double>(row.size());
  return mean;
}

}  // namespace

FrozenNorm::FrozenNorm(const model::NormConfig& config, const model::NormWeights& weights,
                       std::span<const double> x)
    : config_(config), weights_(weights) {
  const double mean = subtracted_mean(config.kind, x);
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean) / static_cast<double>(x.size());
  scale_ = 1 / std::sqrt(squares + double{config.eps});
}

void FrozenNorm::apply(std::span<double> part) const {
  if (config_.kind == model::NormKind::none) return;
  const double mean = subtracted_mean(config_.kind, part);
  for (std::size_t i = 0; i < part.size(); ++i) part[i] = (part[i] - mean) * factor(i);
}

void FrozenNorm::back(std::span<double> d) const {
  if (config_.kind == model::NormKind::none) return;
  for (std::size_t i = 0; i < d.size(); ++i) d[i] *= factor(i);
  const double mean = subtracted_mean(config_.kind, d);
  for (double& value : d) value -= mean;
}

}  // namespace attnctl::causal
