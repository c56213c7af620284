#pragma once

#include "base/pool.hpp"
#include "linalg/matrix.hpp"
#include "model/model.hpp"

// The parts of the float64 pass as their formulas define them. The fast pass shares none of this arithmetic.
namespace attnctl::reference {

using linalg::Matrix;
using linalg::Vector;

/// Returns the weight W [in, out] of a linear layer, the product of its factors if it is factorised.
[[nodiscard]] Matrix weight_of(const Linear& linear);

/// Returns x W + b [n, out] of x [n, in].
[[nodiscard]] Matrix apply(const Linear& linear, const Matrix& x, Pool& pool);

/// The rows of a matrix with mean 0 (layer norm only) and variance or mean square 1.
struct NormalisedRows {
  Matrix values;     // [n, width]
  Matrix deviation;  // [n, 1]: what each row was divided by
};
[[nodiscard]] NormalisedRows normalise(const NormConfig& config, const Matrix& x);

/// Returns the gains of a norm [width], 1 for a norm that stores none.
[[nodiscard]] Vector gain_of(const NormWeights& weights, std::size_t width);

/// Returns the norm of each row times its gain plus its bias; x itself if the kind is `none`.
[[nodiscard]] Matrix apply(const NormConfig& config, const NormWeights& weights, const Matrix& x);

[[nodiscard]] Matrix activate(Activation activation, const Matrix& x);

/// Returns the output of a layer's MLP, or of its experts, for x [n, d].
[[nodiscard]] Matrix run_mlp(const LayerConfig& config, const LayerWeights& weights, const Matrix& x,
                             Pool& pool);

/// Returns N(x + act(conv(embeddings))), or x if the layer has no convolution.
[[nodiscard]] Matrix add_convolution(const LayerConfig& config, const LayerWeights& weights,
                                     const Matrix& embeddings, const Matrix& x);

}  // namespace attnctl::reference
