#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "model/model.hpp"
#include "reference/reference.hpp"
#include "textbook/experiment.hpp"

namespace attnctl::textbook {

/// Options of the gradients experiment. It uses one self-attention layer with normal input. The entries of
/// W_Q, W_K, W_V and W_O are normal with variance 1/d. The loss is a random linear function of the layer's
/// output Y [n, d]: L = sum of Y_ij G_ij with normal entries G_ij, so dL/dY = G.
struct GradientsOptions {
  std::size_t n = 16;
  std::size_t d = 64;
  std::size_t heads = 4;         // must divide d; d_value = d / heads
  std::vector<std::size_t> d_k;  // empty: only d / heads
  std::size_t checks = 64;       // number of entries of each gradient that are checked, evenly spaced
  std::uint64_t seed = 0;
};

/// The weights of one head, in the row-vector convention.
struct HeadMatrices {
  OwnedMatrix<double> query, key;  // [d, k]
  OwnedMatrix<double> value;       // [d, v]
  OwnedMatrix<double> output;      // [v, d]
};

/// The gradient dL/dx through one head, in three parts: through the query, key and value projections, [n, d]
/// each. The sum of the three parts is the gradient through the head. The sum over all heads is dL/dx of the
/// layer.
struct HeadGradient {
  OwnedMatrix<double> query, key, value;
  OwnedMatrix<double> pattern;  // [n, n], from the forward pass
};

/// Returns the gradients of one head for dL/dY [n, d]. `scale` is the factor on the scores.
[[nodiscard]] HeadGradient head_gradient(const HeadMatrices& head, MatrixView<const double> x,
                                         MatrixView<const double> d_output, double scale);

/// Measures gradients for each d_k, with unscaled scores and with scores divided by sqrt(d_k). In each of
/// these cases, each head has a row, and a row without a head is for the whole layer. The columns are:
/// - path, query, key, value: Frobenius norms of the gradient through the head and of its three parts; for
///   the layer, norms of the sums over the heads
/// - share: the head's share of the layer's gradient, <head, layer> / <layer, layer>; the shares sum to 1
/// - query_median: median over tokens i of the norm of dL/dx_i through the query; for the layer, over tokens
///   and heads
/// - largest_weight: largest weight of a pattern row, mean over the rows
/// - error: largest difference between the checked entries of a gradient and fourth-order central
///   differences, divided by the largest magnitude in the gradient; for a head, the largest error of its
///   three parts
///
/// Throws Error(usage) if heads does not divide d.
[[nodiscard]] ExperimentResult gradients_experiment(const GradientsOptions& options, Pool& pool);

/// Attribution of one logit of a trained model to a value: the z of a head at all positions, or the embedding
/// of a token.
struct Attribution {
  double attribution = 0;  // <gradient, value>: derivative of the logit when the value is scaled
  double gradient = 0;     // Frobenius norm of the gradient
};

/// The attributions of one logit of one input.
struct LogitAttribution {
  std::string input;
  std::vector<std::string> tokens;  // [n]; empty without a vocabulary
  std::size_t position = 0;
  std::size_t target = 0;   // token id
  std::string target_text;  // empty without a vocabulary
  double logit = 0;
  std::vector<std::pair<model::HeadId, Attribution>> heads;  // the selected heads
  std::vector<Attribution> embeddings;                       // [n]
};
/// Returns the attributions to the given heads and to all tokens. Does not set `input`, `tokens`, `position`
/// and `target_text`.
[[nodiscard]] LogitAttribution attribute(const reference::LogitGradient& gradient,
                                         std::span<const model::HeadId> heads);

/// Returns for each input first one row per token, then one row per head. The chart shows the tokens of the
/// first input, and the heatmaps show the heads. `inputs` must not be empty.
[[nodiscard]] ExperimentResult gradients_of_model(std::span<const LogitAttribution> inputs);

}  // namespace attnctl::textbook
