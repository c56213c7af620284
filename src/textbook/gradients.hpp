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

namespace attnctl {

/// Options of the gradients experiment: one self-attention layer with normal weights that preserve the
/// variance of its normal input. Entries of W_Q, W_K, W_V and W_O have variance 1/d. The loss is a random
/// linear function of the layer's output, L = sum(Y o G) with normal G, so dL/dY = G.
struct GradientsOptions {
  std::size_t n = 16;
  std::size_t d = 64;
  std::size_t heads = 4;         // must divide d; d_value = d / heads
  std::vector<std::size_t> d_k;  // empty: only d / heads
  std::size_t checks = 64;       // number of checked entries per path, evenly spaced
  std::uint64_t seed = 0;
};

/// The weights of one head, in the row-vector convention.
struct HeadMatrices {
  OwnedMatrix<double> query, key;  // [d, k]
  OwnedMatrix<double> value;       // [d, v]
  OwnedMatrix<double> output;      // [v, d]
};

/// dL/dx along one head's path, split by the projection that x enters, [n, d] each. Their sum is the path of
/// the head. The sum of all heads' paths is dL/dx of the layer.
struct HeadGradient {
  OwnedMatrix<double> query, key, value;
  OwnedMatrix<double> pattern;  // [n, n], from the forward pass
};

/// Returns the gradients of one head for dL/dY [n, d]. Computes dL/dz = dL/dY W_O^T first, then the values
/// and the softmax, then the projections.
[[nodiscard]] HeadGradient head_gradient(const HeadMatrices& head, MatrixView<const double> x,
                                         MatrixView<const double> d_output, double scale);

/// Measures gradients for each d_k, with unscaled scores and scores divided by sqrt(d_k). Each head has a
/// row, and a row without a head is for the layer. Columns: the Frobenius norms of the path and its three
/// routes (for the layer: sums over heads); the path's share of the whole gradient (<path, whole> /
/// <whole, whole>, sums to 1); the median over tokens of |dL/dx_i| through the query (for the layer: over
/// tokens and heads); the mean largest weight; and `error`. Every path is checked against fourth-order
/// central differences. `error` is the largest difference divided by the largest entry of the route. Throws
/// Error(usage) if heads does not divide d.
[[nodiscard]] ExperimentResult gradients_experiment(const GradientsOptions& options, Pool& pool);

/// Attribution of one logit of a trained model to a head's z (over all positions) or to a token's embedding.
struct Attribution {
  double attribution = 0;  // <gradient, value>: derivative of the logit when the value is scaled
  double gradient = 0;     // Frobenius norm
};

/// The attributions of one input.
struct LogitAttribution {
  std::string input;
  std::vector<std::string> tokens;  // [n]; empty without a vocabulary
  std::size_t position = 0;
  std::size_t target = 0;   // token id
  std::string target_text;  // empty without a vocabulary
  double logit = 0;
  std::vector<std::pair<HeadId, Attribution>> heads;  // the selected heads
  std::vector<Attribution> embeddings;                // [n]
};
/// Returns the attributions of a gradient to the given heads and to all tokens, without the texts.
[[nodiscard]] LogitAttribution attribute(const LogitGradient& gradient, std::span<const HeadId> heads);

/// Returns one row per token and then one per head, for each input.
[[nodiscard]] ExperimentResult gradients_of_model(std::span<const LogitAttribution> inputs);

}  // namespace attnctl
