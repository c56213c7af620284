#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/numbers.hpp"
#include "base/pool.hpp"
#include "model/model.hpp"

// The best match of the heads of two models.
namespace attnctl::analysis {

/// Returns for each row the column of a one-to-one assignment with the largest sum (Kuhn 1955; shortest
/// augmenting paths of Jonker and Volgenant 1987). `values` is [n, m] with n <= m; NaN counts as the smallest
/// value. Throws std::logic_error if there are more rows than columns.
[[nodiscard]] std::vector<std::size_t> best_assignment(MatrixView<const double> values);

struct HeadMatch {
  std::vector<std::size_t> partner;  // [heads of a], index of the head of b
  double score = kUndefined;         // mean similarity of the pairs
  // The scores of `kRandomMatches` random matches, and the share of them, with this match, that reach
  // `score`.
  double null_mean = kUndefined, null_deviation = kUndefined, p_value = kUndefined;
};
inline constexpr std::size_t kRandomMatches = 999;

/// Matches heads by the matrix of their similarities [heads of a, heads of b]. Random matches come from
/// `seed`.
[[nodiscard]] HeadMatch match_heads(MatrixView<const double> similarity, std::uint64_t seed);

/// Returns the similarities [heads, heads] of heads of model a and heads of model b: the mean of the
/// Frobenius cosines of their QK circuits and of their OV circuits (of QK alone if a model has no OV
/// circuits). NaN if a circuit is 0 or not finite, or if two circuits have different shapes.
[[nodiscard]] OwnedMatrix<double> circuit_similarities(const model::Model& a,
                                                       std::span<const model::HeadId> heads_a,
                                                       const model::Model& b,
                                                       std::span<const model::HeadId> heads_b, Pool& pool);

}  // namespace attnctl::analysis
