#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace attnctl {

/// Number of rows by visible keys: rows_by_keys[m] rows have m keys. The entropies below are means over
/// these rows.
using RowsByKeys = std::span<const std::uint64_t>;

/// Returns the expected mean entropy (nats) of rows softmax(tau g) with independent standard normal g, by
/// quadrature. With Z = sum exp(tau g_j) it is E ln Z - tau d/dtau E ln Z (dE ln Z/dtau = E sum p_j g_j). E
/// ln Z = -gamma + int (1[u < 0] - phi(u)^m) du, where phi(u) = E exp(-exp(u + tau g)) is another integral.
/// The absolute error is below 1e-7 for tau up to 1000 and m up to 65536. tau must be positive. There must
/// be at least one row, and no row without keys.
[[nodiscard]] double normal_score_entropy(double tau, RowsByKeys rows_by_keys);

/// Returns the temperature T at which rows softmax(g / T) of standard normal scores g have this mean
/// entropy. Scores of unit variance have T = 1, and sharp heads have a low T. The relative error is 1e-7.
/// Returns nullopt if T is not between 0.001 and 1000.
[[nodiscard]] std::optional<double> temperature_of_entropy(double mean_entropy, RowsByKeys rows_by_keys);

}  // namespace attnctl
