#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace attnctl {

// How many dimensions a matrix uses, from its singular values [r], non-negative, in any order. All zero (or
// none, or one that is not finite): the effective and the stable rank are undefined, nullopt.

/// Effective rank: exp of the entropy, in nats, of the values divided by their sum (Roy and Vetterli 2007,
/// definition 1). In [1, r]. Uses s, not s^2.
[[nodiscard]] std::optional<double> effective_rank(std::span<const double> singular_values);

/// Stable rank: sum(s^2) / max(s)^2, the squared Frobenius norm over the squared spectral norm (Rudelson and
/// Vershynin 2007). In [1, r].
[[nodiscard]] std::optional<double> stable_rank(std::span<const double> singular_values);

/// Values above max(rows, cols) * eps(float32) * max(s), the tolerance of numpy.linalg.matrix_rank for
/// weights of float32: what lies below is rounding of the stored weights. In [0, r]; 0 for a zero matrix,
/// nullopt for values that are not finite.
[[nodiscard]] std::optional<std::size_t> numerical_rank(std::span<const double> singular_values,
                                                        std::size_t rows, std::size_t cols);

}  // namespace attnctl
