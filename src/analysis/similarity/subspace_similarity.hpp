#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "analysis/weights/circuit.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"

namespace attnctl {

/// A head to compare: the factors of its circuit and the Frobenius norm of the circuit.
struct ComparedHead {
  const CircuitFactors* factors = nullptr;
  std::size_t head = 0;
  double norm = 0;  // 0 or not finite: the cosines are undefined
  /// circuit_mass / norm, at least 1. Measures how much the terms of the circuit cancel, and so how much
  /// rounding errors grow. Infinite: compare in double.
  double cancellation = std::numeric_limits<double>::infinity();
};

/// Returns sum |l_c| |r_c| over the columns of both factors of a circuit. This is the norm of the circuit
/// sum l_c r_c^T if nothing cancelled. Infinite if products of a column overflow or underflow in float32.
///
/// @param left_columns, right_columns  transposed factors [width, dimension]
[[nodiscard]] double circuit_mass(MatrixView<const double> left_columns,
                                  MatrixView<const double> right_columns);

/// Returns the Frobenius cosine <A_i, A_j> / (|A_i| |A_j|) of every pair of circuits of each set, in [-1,
/// 1]. Each result is [heads, heads] and symmetric, with 1 on the diagonal. Rows and columns of heads
/// without a norm are NaN. All circuits of a set must have the same shape.
///
/// No circuit is formed: <L_i R_i^T, L_j R_j^T> = sum((L_i^T L_j) o (R_i^T R_j)). Heads that share a slice
/// share its [width, width] products. Products are computed in float32 from the weights in place, and sums
/// in double. Both use double if float32 could change the sixth decimal (strong cancellation, narrow slices)
/// or if a gain is folded in. Results do not depend on the number of threads.
[[nodiscard]] std::vector<OwnedMatrix<double>> frobenius_cosines(
    std::span<const std::vector<ComparedHead>> sets, Pool& pool);

/// Heads with a matrix over all pairs of them, within one layer or across layers (`layer` is nullopt).
struct HeadMatrix {
  std::optional<std::size_t> layer;
  std::vector<HeadId> heads;
  OwnedMatrix<double> values;  // [heads, heads]; NaN if undefined
};

/// Means over the pairs of different heads with a defined similarity. nullopt without such pairs.
struct OffDiagonal {
  std::optional<double> mean;
  std::optional<double> mean_abs;
};
[[nodiscard]] OffDiagonal off_diagonal(MatrixView<const double> similarity);

}  // namespace attnctl
