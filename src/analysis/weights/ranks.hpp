#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace attnctl {

// Ranks of a matrix, computed from its r singular values s. The values must not be negative; their order does
// not matter. effective_rank and stable_rank return nullopt if all values are zero, if values are missing,
// or if a value is not finite.

/// Returns the effective rank (Roy and Vetterli 2007, definition 1): exp of the entropy, in nats, of s /
/// sum(s). The result is in [1, r]. Uses s, not s^2.
[[nodiscard]] std::optional<double> effective_rank(std::span<const double> singular_values);

/// Returns the stable rank sum(s^2) / max(s)^2 (Rudelson and Vershynin 2007). This is the squared Frobenius
/// norm divided by the squared spectral norm. The result is in [1, r].
[[nodiscard]] std::optional<double> stable_rank(std::span<const double> singular_values);

/// Returns the numerical rank: the number of values above max(rows, cols) * eps(float32) * max(s).
/// numpy.linalg.matrix_rank uses the same tolerance for float32 weights; smaller values are rounding errors
/// of the stored weights. The result is in [0, r]; it is 0 for a zero matrix, and nullopt if a value is not
/// finite.
[[nodiscard]] std::optional<std::size_t> numerical_rank(std::span<const double> singular_values,
                                                        std::size_t rows, std::size_t cols);

}  // namespace attnctl
