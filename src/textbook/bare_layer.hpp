#pragma once

#include <cstddef>
#include <span>

#include "base/matrix_view.hpp"
#include "base/random.hpp"

namespace attnctl {

/// Returns a matrix with independent normal entries.
[[nodiscard]] OwnedMatrix<double> random_matrix(std::size_t rows, std::size_t cols, double deviation,
                                                Random& random);

/// Return scale a b, scale a b^T and scale a^T b.
[[nodiscard]] OwnedMatrix<double> product(MatrixView<const double> a, MatrixView<const double> b,
                                          double scale = 1);
[[nodiscard]] OwnedMatrix<double> product_nt(MatrixView<const double> a, MatrixView<const double> b,
                                             double scale = 1);
[[nodiscard]] OwnedMatrix<double> product_tn(MatrixView<const double> a, MatrixView<const double> b,
                                             double scale = 1);

/// Replace a row, or each row of a matrix, by its softmax. Rows are not empty.
void softmax(std::span<double> row);
void softmax_rows(MatrixView<double> scores);

/// A bare layer of full attention in float64, without biases. Weights are [out, in]. Rows [h k, (h + 1) k)
/// belong to head h.
struct BareLayer {
  std::size_t heads = 1;
  OwnedMatrix<double> query, key, value, output;  // [d, d] each

  [[nodiscard]] std::size_t d_head() const { return query.rows() / heads; }
};

/// Returns a layer with weights of deviation 1/sqrt(d). For inputs of unit variance, queries, keys and
/// values then have unit variance. `heads` must divide d.
[[nodiscard]] BareLayer random_bare_layer(std::size_t d, std::size_t heads, Random& random);

/// Returns q k^T / sqrt(k) of a head for x [n, d], as [n, n].
[[nodiscard]] OwnedMatrix<double> scores_of(const BareLayer& layer, std::size_t head,
                                            MatrixView<const double> x);

/// Returns the output of the layer, [n, d].
[[nodiscard]] OwnedMatrix<double> output_of(const BareLayer& layer, MatrixView<const double> x);

}  // namespace attnctl
