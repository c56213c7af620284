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

/// A head whose circuit is compared: its factors, and |circuit|_F.
struct ComparedHead {
  const CircuitFactors* factors = nullptr;
  std::size_t head = 0;
  double norm = 0;  // 0 or not finite: the head's cosines are undefined
  /// circuit_mass over norm, at least 1: how many times larger the parts of the circuit are than their sum,
  /// and so how many times rounding weighs. Infinite: compare in double.
  double cancellation = std::numeric_limits<double>::infinity();
};

/// sum |l_c| |r_c| over the columns of both factors of a circuit, given by columns [width, dimension]: the
/// norm that the circuit sum l_c r_c^T would have if nothing cancelled. Infinite where a column is so large
/// or small that products of it leave the range of float32.
[[nodiscard]] double circuit_mass(MatrixView<const double> left_columns,
                                  MatrixView<const double> right_columns);

/// Frobenius cosine <A_i, A_j> / (|A_i| |A_j|) of every pair of circuits of each set, in [-1, 1]:
/// [heads, heads], symmetric, 1 on the diagonal; NaN stands for undefined, in the rows and columns of heads
/// without a norm. All circuits of a set have the same shape.
///
/// No circuit is formed: <L_i R_i^T, L_j R_j^T> = sum((L_i^T L_j) o (R_i^T R_j)), products [width, width] of
/// which heads that share a slice share one. The products are made in float32 on the weights where they lie,
/// the sums in double; both in double where float32 might miss the sixth decimal (much cancellation, narrow
/// slices) or where a gain is folded in. Nothing depends on threads.
[[nodiscard]] std::vector<OwnedMatrix<double>> frobenius_cosines(
    std::span<const std::vector<ComparedHead>> sets, Pool& pool);

/// Means over the pairs of unlike heads whose similarity is defined; nullopt where there is none.
struct OffDiagonal {
  std::optional<double> mean;
  std::optional<double> mean_abs;
};
[[nodiscard]] OffDiagonal off_diagonal(MatrixView<const double> similarity);

}  // namespace attnctl
