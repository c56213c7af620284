#pragma once

#include <cstddef>

#include "base/matrix_view.hpp"
#include "base/random.hpp"

namespace attnctl {

/// A bare layer of full attention in float64, without biases. Weights are [out, in]. Rows [h k, (h + 1) k)
/// belong to head h.
struct BareLayer {
  std::size_t heads = 1;
  OwnedMatrix<double> query, key, value, output;  // [d, d] each

  [[nodiscard]] std::size_t d_head() const { return query.rows() / heads; }
};

/// Returns a matrix with independent normal entries.
[[nodiscard]] OwnedMatrix<double> random_matrix(std::size_t rows, std::size_t cols, double deviation,
                                                Random& random);

/// Returns a layer with weights of deviation 1/sqrt(d). For inputs of unit variance, queries, keys and
/// values then have unit variance. `heads` must divide d.
[[nodiscard]] BareLayer random_bare_layer(std::size_t d, std::size_t heads, Random& random);

/// Returns q k^T / sqrt(k) of a head for x [n, d], as [n, n].
[[nodiscard]] OwnedMatrix<double> scores_of(const BareLayer& layer, std::size_t head,
                                            MatrixView<const double> x);

/// Replaces each row by its softmax.
void softmax_rows(MatrixView<double> scores);

/// Returns the output of the layer, [n, d].
[[nodiscard]] OwnedMatrix<double> output_of(const BareLayer& layer, MatrixView<const double> x);

}  // namespace attnctl
