#pragma once

#include <span>

#include "model/model.hpp"

namespace attnctl::causal {

/// A norm whose mean and scale are those of one row x: linear in the parts of x, without the bias.
class FrozenNorm {
 public:
  /// `x`: the row whose mean and scale count. The configuration and the weights are borrowed.
  FrozenNorm(const model::NormConfig& config, const model::NormWeights& weights, std::span<const double> x);

  /// Replaces a part p of x, or of a slice of x, by (p - mean of p) * scale * gain. Nothing changes without a
  /// norm; RMS norms subtract no mean.
  void apply(std::span<double> part) const;
  /// Replaces the derivatives d with respect to the result of apply() by those with respect to the part.
  void back(std::span<double> d) const;

 private:
  [[nodiscard]] double factor(std::size_t i) const {
    return scale_ * (weights_.gain.empty() ? 1 : double{weights_.gain[i]});
  }

  const model::NormConfig& config_;
  const model::NormWeights& weights_;
  double scale_ = 1;
};

}  // namespace attnctl::causal
