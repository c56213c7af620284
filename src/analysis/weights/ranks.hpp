#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace attnctl {

// Ranks of a matrix from its singular values [r], which are non-negative and in any order. The effective and
// the stable rank are undefined (nullopt) if all values are zero, if there are none, or if one is not
// finite.

/// Returns the effective rank: exp of the entropy, in nats, of the values divided by their sum (Roy and
/// Vetterli 2007, definition 1). In [1, r]. Uses s, not s^2.
[[nodiscard]] std::optional<double> effective_rank(std::span<const double> singular_values);

/// Returns the stable rank: sum(s^2) / max(s)^2, the squared Frobenius norm divided by the squared spectral
/// norm (Rudelson and Vershynin 2007). In [1, r].
[[nodiscard]] std::optional<double> stable_rank(std::span<const double> singular_values);

/// Returns the numerical rank: the number of values above max(rows, cols) * eps(float32) * max(s). This is
/// the tolerance of numpy.linalg.matrix_rank for float32 weights; smaller values are rounding errors of the
/// stored weights. In [0, r]. Returns 0 for a zero matrix, and nullopt if a value is not finite.
[[nodiscard]] std::optional<std::size_t> numerical_rank(std::span<const double> singular_values,
                                                        std::size_t rows, std::size_t cols);

}  // namespace attnctl
