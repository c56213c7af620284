#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "analysis/weights/circuit.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"

namespace attnctl::analysis {

struct ComparedHead {
  const CircuitFactors* factors = nullptr;  // circuits of the layer of the head
  std::size_t head = 0;
  double norm = 0;  // Frobenius norm of the circuit; 0 or not finite: the cosines are undefined
  /// circuit_mass / norm, at least 1. Large if the terms of the circuit cancel; rounding errors grow in
  /// proportion. Infinite: the head is compared in double.
  double cancellation = std::numeric_limits<double>::infinity();
};

/// Returns sum_c |l_c| |r_c|, where l_c and r_c are column c of the two factors of a circuit. The circuit is
/// sum_c l_c r_c^T, and its norm is at most this sum. Returns infinity if a norm |l_c| or |r_c| is neither 0
/// nor in [2^-40, 2^40]: float32 products with it can overflow or underflow.
///
/// @param left_columns, right_columns  transposed factors [width, dimension]
[[nodiscard]] double circuit_mass(MatrixView<const double> left_columns,
                                  MatrixView<const double> right_columns);

/// Returns the Frobenius cosine <A_i, A_j> / (|A_i| |A_j|) of every pair of circuits A_i, A_j of each set, in
/// [-1, 1]. There is one result per set; each is [heads, heads] and symmetric, with 1 on the diagonal. If the
/// norm of a head is 0 or not finite, its row and column are NaN. A pair is also NaN if its inner product
/// overflows. All circuits of a set must have the same shape and the same width.
///
/// No circuit is formed. For A_i = L_i R_i^T, <A_i, A_j> = sum((L_i^T L_j) o (R_i^T R_j)), where o is the
/// element-wise product. Heads are compared in blocks; adjacent heads of a block that use the same slice of a
/// weight share its [width, width] products. These products are computed in float32 directly from the stored
/// weights, and sums in double. A product is computed in double if float32 could change the sixth decimal of
/// the cosine (strong cancellation, width below 32), if a gain is folded in, if a weight is stored as a
/// product of two matrices, or if the weights of the two heads are stored in different orientations. Results
/// do not depend on the number of threads.
[[nodiscard]] std::vector<OwnedMatrix<double>> frobenius_cosines(
    std::span<const std::vector<ComparedHead>> sets, Pool& pool);

struct HeadMatrix {
  std::optional<std::size_t> layer;  // nullopt: heads of all selected layers
  std::vector<model::HeadId> heads;
  OwnedMatrix<double> values;  // [heads, heads]; NaN if undefined
};

/// Means of the similarity and of its absolute value over all pairs of different heads, where it is finite.
struct OffDiagonal {
  std::optional<double> mean;
  std::optional<double> mean_abs;
};
[[nodiscard]] OffDiagonal off_diagonal(MatrixView<const double> similarity);

}  // namespace attnctl::analysis
