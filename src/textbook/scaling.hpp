#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/patterns/temperature.hpp"
#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Why scores are divided by sqrt(d_k) (Vaswani et al. 2017, 3.2.1).
struct ScalingOptions {
  std::vector<std::size_t> d_k = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::size_t keys = 64;             // of a query
  std::size_t components = 1 << 18;  // of queries drawn for each d_k; at least 2048 queries
  std::uint64_t seed = 0;
};

/// Rows of queries and keys with independent normal components of unit variance; for each d_k, unscaled and
/// divided by sqrt(d_k): variance of the scores (expected: d_k and 1), mean largest weight, mean entropy of
/// the rows (nats), and the mean Frobenius norm of the softmax Jacobian diag(p) - p p^T, through which
/// gradients go.
[[nodiscard]] ExperimentResult scaling_experiment(const ScalingOptions& options, Pool& pool);

/// A row for each head of a trained model: how sharp it is beside unit-variance scores.
[[nodiscard]] ExperimentResult scaling_of_model(std::span<const HeadTemperature> heads);

/// |diag(p) - p p^T|_F = sqrt(sum p^2 - 2 sum p^3 + (sum p^2)^2).
[[nodiscard]] double softmax_jacobian_norm(std::span<const double> p);

}  // namespace attnctl
