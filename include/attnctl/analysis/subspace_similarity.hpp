#pragma once

#include "attnctl/analysis/circuit.hpp"
#include "attnctl/base/matrix_view.hpp"
#include "attnctl/base/pool.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace attnctl {

/// A head whose circuit is compared: its factors, and |circuit|_F.
struct ComparedHead {
  const CircuitFactors* factors = nullptr;
  std::size_t head = 0;
  double norm = 0;  // 0 or not finite: the head's cosines are undefined
};

/// Frobenius cosine <A_i, A_j> / (|A_i| |A_j|) of every pair of circuits, in [-1, 1]: [heads, heads],
/// symmetric, 1 on the diagonal; NaN stands for undefined, in the rows and columns of heads without a norm.
///
/// No circuit is formed: <L_i R_i^T, L_j R_j^T> = sum((L_i^T L_j) o (R_i^T R_j)), so blocks of the two Gram
/// matrices [heads width, heads width] serve all pairs, those of shared key/value heads once a block. In
/// double throughout. All circuits have the same shape.
[[nodiscard]] OwnedMatrix<double> frobenius_cosines(std::span<const ComparedHead> heads, Pool& pool);

/// Means over the pairs of unlike heads whose similarity is defined; nullopt where there is none.
struct OffDiagonal {
  std::optional<double> mean;
  std::optional<double> mean_abs;
};
[[nodiscard]] OffDiagonal off_diagonal(MatrixView<const double> similarity);

}  // namespace attnctl
