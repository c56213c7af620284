#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/patterns/temperature.hpp"
#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl::textbook {

/// Options of the scaling experiment. It shows why scores are divided by sqrt(d_k) (Vaswani et al. 2017,
/// section 3.2.1).
struct ScalingOptions {
  std::vector<std::size_t> d_k = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::size_t keys = 64;             // keys per query
  std::size_t components = 1 << 18;  // query components drawn for each d_k; at least enough for 2048 queries
  std::uint64_t seed = 0;
};

/// Measures attention rows for queries and keys with independent normal components of unit variance. Reports
/// for each d_k, with unscaled scores and with scores divided by sqrt(d_k): the variance of the scores
/// (expected: d_k if unscaled, else 1); the mean largest weight; the mean entropy of the rows in nats; and
/// the mean Frobenius norm of the softmax Jacobian diag(p) - p p^T of a row p, which multiplies the
/// gradients.
[[nodiscard]] ExperimentResult scaling_experiment(const ScalingOptions& options, Pool& pool);

/// Returns one row per head of a trained model, with the values of its HeadTemperature. The summary counts
/// the heads whose temperature is below 1, which are sharper than heads with unit-variance scores.
[[nodiscard]] ExperimentResult scaling_of_model(std::span<const analysis::HeadTemperature> heads);

/// Returns the Frobenius norm |diag(p) - p p^T|_F, computed as sqrt(sum p^2 - 2 sum p^3 + (sum p^2)^2).
[[nodiscard]] double softmax_jacobian_norm(std::span<const double> p);

}  // namespace attnctl::textbook
