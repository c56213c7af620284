#pragma once

#include <cstddef>
#include <utility>

#include "base/pool.hpp"
#include "input/batch.hpp"
#include "linalg/matrix.hpp"
#include "model/model.hpp"
#include "reference/reference.hpp"

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
  Matrix deviation;  // [n, 1]: the divisor of each row
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

/// The embedding of a stack of layers: the model's, or that of its decoder.
struct Embedding {
  const EmbeddingConfig& config;
  Lease<EmbeddingWeights> lease;
  const EmbeddingWeights& weights;

  explicit Embedding(const Model& model) : Embedding(model.config().embedding, model.embedding()) {}
  Embedding(const EmbeddingConfig& stack_config, Lease<EmbeddingWeights> stack_lease)
      : config(stack_config), lease(std::move(stack_lease)), weights(*lease) {}
};

/// Returns the rows of the token table, or the embeddings or patches that the sequence has instead [n,
/// width].
[[nodiscard]] Matrix token_embeddings(const Embedding& embedding, const Sequence& sequence);
/// Returns the token embeddings plus positions and token types [n, width].
[[nodiscard]] Matrix embedding_sum(const Embedding& embedding, const Sequence& sequence);
/// Returns the input of the first layer [n, d]: the sum, normalised and projected.
[[nodiscard]] Matrix embed(const Embedding& embedding, const Sequence& sequence, Pool& pool);

/// The inputs of one layer's attention.
struct AttentionInput {
  const Sequence& sequence;  // of the keys: brings the masks
  const Matrix& queries;     // [n, d]
  const Matrix& keys;        // [m, kdim]
  const Matrix& values;      // [m, vdim]
};

/// Computes softmax(scale q k^T + positions + mask) v of all heads of a layer, and their output.
[[nodiscard]] ReferencePass::Layer attend(const AttentionConfig& config, const AttentionWeights& weights,
                                          const AttentionInput& input, Pool& pool);

/// Returns columns [index * width, (index + 1) * width): one head of a projection [n, heads * width].
[[nodiscard]] Matrix head_columns(const Matrix& projection, std::size_t index, std::size_t width);

enum class Turn { forward, back };

/// Rotates row i of one head [n, k] by position i, or back by the same angles. `length` is the number of
/// queries. Angles, cosines and sines are float32, as in the reference implementation, even in float64
/// models.
[[nodiscard]] Matrix rotate(const RotaryConfig& rotary, std::size_t length, const Matrix& x,
                            Turn turn = Turn::forward);

}  // namespace attnctl::reference
