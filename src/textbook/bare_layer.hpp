#pragma once

#include <cstddef>

#include "base/matrix_view.hpp"
#include "base/random.hpp"

namespace attnctl {

/// A bare layer of full attention in float64, without biases. Weights are [out, in]: rows [h k, (h + 1) k)
/// are head h's.
struct BareLayer {
  std::size_t heads = 1;
  OwnedMatrix<double> query, key, value, output;  // [d, d] each

  [[nodiscard]] std::size_t d_head() const { return query.rows() / heads; }
};

/// Independent normal entries.
[[nodiscard]] OwnedMatrix<double> random_matrix(std::size_t rows, std::size_t cols, double deviation,
                                                Random& random);

/// Weights of deviation 1/sqrt(d), so that inputs of unit variance have queries, keys and values of unit
/// variance. `heads` divides d.
[[nodiscard]] BareLayer random_bare_layer(std::size_t d, std::size_t heads, Random& random);

/// q k^T / sqrt(k) of a head for x [n, d]: [n, n].
[[nodiscard]] OwnedMatrix<double> scores_of(const BareLayer& layer, std::size_t head,
                                            MatrixView<const double> x);

/// Softmax of each row, in place.
void softmax_rows(MatrixView<double> scores);

/// The layer's output [n, d].
[[nodiscard]] OwnedMatrix<double> output_of(const BareLayer& layer, MatrixView<const double> x);

}  // namespace attnctl
