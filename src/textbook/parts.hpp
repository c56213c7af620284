#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/numbers.hpp"
#include "results/results.hpp"

// Parts that several experiments use: cells, charts, matrices in float64, and an attention layer.
namespace attnctl::textbook {

/// The definitions of the columns of each experiment.
extern const Definition kAveragingColumns[7], kDistanceColumns[14], kDiversityColumns[4],
    kGradientsColumns[13], kHeadsColumns[11], kHullColumns[11], kKindsColumns[7], kPositionsColumns[8],
    kScalingColumns[13];

using CellRows = std::vector<std::vector<Cell>>;

[[nodiscard]] inline Cell cell_of(const std::optional<double>& value) {
  return value ? Cell(*value) : Cell();
}

/// Copies the matrix to an array [rows, cols].
[[nodiscard]] Tensor array_of(MatrixView<const double> matrix);

/// Replace a row (softmax) or each row of a matrix (softmax_rows) by its softmax. Rows must not be empty.
void softmax(std::span<double> row);
void softmax_rows(MatrixView<double> scores);

/// A single attention layer in float64, with full attention and without biases. Weights are [out, in]. Rows h
/// * d_head to (h + 1) * d_head - 1 of query, key and value belong to head h, and so do the same columns of
/// output.
struct BareLayer {
  std::size_t heads = 1;
  OwnedMatrix<double> query, key, value, output;  // [d, d] each

  [[nodiscard]] std::size_t d_head() const { return query.rows() / heads; }
};

/// Returns a layer with normal weights of standard deviation 1/sqrt(d). If the inputs have unit variance,
/// queries, keys and values also have unit variance. `heads` must divide d.
[[nodiscard]] BareLayer random_bare_layer(std::size_t d, std::size_t heads, Random& random);

/// Returns the scores of a head, [n, n], for the input x [n, d]: q k^T / sqrt(d_head), with the head's
/// queries q and keys k.
[[nodiscard]] OwnedMatrix<double> scores_of(const BareLayer& layer, std::size_t head,
                                            MatrixView<const double> x);

/// Returns the output of the layer, [n, d], for the input x [n, d].
[[nodiscard]] OwnedMatrix<double> output_of(const BareLayer& layer, MatrixView<const double> x);

}  // namespace attnctl::textbook
