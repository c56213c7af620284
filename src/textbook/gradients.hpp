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
#include "reference/logit_gradient.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// One layer of self-attention with normal weights that keep the variance of its normal input: entries of
/// W_Q, W_K and W_V have variance 1/d, those of W_O 1/d. The loss is a seeded linear functional of the
/// layer's output, L = sum(Y o G) with G normal, so that dL/dY = G.
struct GradientsOptions {
  std::size_t n = 16;
  std::size_t d = 64;
  std::size_t heads = 4;         // divides d; d_value = d / heads
  std::vector<std::size_t> d_k;  // empty: d / heads alone
  std::size_t checks = 64;       // entries of each path that are checked, spread evenly
  std::uint64_t seed = 0;
};

/// The weights of one head, row-vector convention.
struct HeadMatrices {
  OwnedMatrix<double> query, key;  // [d, k]
  OwnedMatrix<double> value;       // [d, v]
  OwnedMatrix<double> output;      // [v, d]
};

/// dL/dx along one head's path, by the projection that x enters through: [n, d] each. Their sum is the head's
/// path; the sum of all heads' paths is dL/dx of the layer.
struct HeadGradient {
  OwnedMatrix<double> query, key, value;
  OwnedMatrix<double> pattern;  // [n, n] of the forward pass
};

/// The chain of one head, from dL/dY [n, d]: dL/dz = dL/dY W_O^T comes first, then the values and the
/// softmax, then the projections.
[[nodiscard]] HeadGradient head_gradient(const HeadMatrices& head, MatrixView<const double> x,
                                         MatrixView<const double> d_output, double scale);

/// For each d_k, with scores as they are and divided by sqrt(d_k), a row for each head and one without a head
/// for the layer: the Frobenius norm of the path and of its three routes (of the layer: of their sums over
/// heads), the path's share of the whole gradient (<path, whole> / <whole, whole>; shares add up to 1), the
/// median over tokens of |dL/dx_i| through the query (of the layer: over tokens and heads), the mean largest
/// weight, and `error`. Every path is checked against central differences of fourth order: `error` is the
/// largest difference over the largest entry of the route. Throws Error(usage) where heads does not divide d.
[[nodiscard]] ExperimentResult gradients_experiment(const GradientsOptions& options, Pool& pool);

/// What one logit of a trained model owes to a head's z (over all positions) or to a token's embedding.
struct Attribution {
  double attribution = 0;  // <gradient, value>: how the logit would change at first if the value were scaled
  double gradient = 0;     // Frobenius norm
};

/// One input of a trained model.
struct LogitAttribution {
  std::string input;
  std::vector<std::string> tokens;  // [n], empty where no vocabulary is known
  std::size_t position = 0;
  std::size_t target = 0;   // id
  std::string target_text;  // empty where no vocabulary is known
  double logit = 0;
  std::vector<std::pair<HeadId, Attribution>> heads;  // those selected
  std::vector<Attribution> embeddings;                // [n]
};
/// The attributions of a gradient to these heads and to all tokens; the texts are left to the caller.
[[nodiscard]] LogitAttribution attribute(const LogitGradient& gradient, std::span<const HeadId> heads);

/// A row for each token, then for each head, of each input.
[[nodiscard]] ExperimentResult gradients_of_model(std::span<const LogitAttribution> inputs);

}  // namespace attnctl
