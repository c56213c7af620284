#pragma once

#include <cstddef>
#include <functional>

#include "base/pool.hpp"
#include "input/batch.hpp"
#include "linalg/matrix.hpp"
#include "model/model.hpp"
#include "reference/reference.hpp"

// The steps of the float64 pass, written like their formulas. The float32 pass does not use this code.
namespace attnctl::reference {

using linalg::Matrix;
using linalg::Vector;

/// Returns the weight W [in, out] of a linear layer; the product of the factors if it is factorised.
[[nodiscard]] Matrix weight_of(const model::Linear& linear);

/// Returns x W + b [n, out] of x [n, in].
[[nodiscard]] Matrix apply(const model::Linear& linear, const Matrix& x, Pool& pool);

/// Normalised rows, without gain and bias. Layer norm subtracts the mean of a row and divides by
/// sqrt(variance + eps). Other norms divide by sqrt(mean square + eps).
struct NormalisedRows {
  Matrix values;     // [n, width]
  Matrix deviation;  // [n, 1]: the divisor of each row
};
[[nodiscard]] NormalisedRows normalise(const model::NormConfig& config, const Matrix& x);

/// Returns the gain of a norm [width]; ones if the norm stores no gain.
[[nodiscard]] Vector gain_of(const model::NormWeights& weights, std::size_t width);

/// Normalises each row, multiplies it by the gain and adds the bias. Returns x itself if the kind is `none`.
[[nodiscard]] Matrix apply(const model::NormConfig& config, const model::NormWeights& weights,
                           const Matrix& x);

[[nodiscard]] Matrix activate(model::Activation activation, const Matrix& x);

/// Returns the output of a layer's MLP or experts for x [n, d].
[[nodiscard]] Matrix run_mlp(const model::LayerConfig& config, const model::LayerWeights& weights,
                             const Matrix& x, Pool& pool);

/// Returns N(x + act(conv(embeddings))), where N is a norm; x if the layer has no convolution.
[[nodiscard]] Matrix add_convolution(const model::LayerConfig& config, const model::LayerWeights& weights,
                                     const Matrix& embeddings, const Matrix& x);

/// The embedding of a model, or of the encoder or the decoder of an encoder-decoder model.
struct Embedding {
  const model::EmbeddingConfig& config;
  model::Lease<model::EmbeddingWeights> weights;
};

/// Returns the token embeddings [n, width]: rows of the token table, with scaling and token dropout if the
/// model has them; the given embeddings; or the class token and the projected patches of an image.
[[nodiscard]] Matrix token_embeddings(const Embedding& embedding, const input::Sequence& sequence);
/// Returns the token embeddings plus token types and, unless config.positions_last, positions [n, width].
[[nodiscard]] Matrix embedding_sum(const Embedding& embedding, const input::Sequence& sequence);
/// Returns the input of the first layer [n, d]: the embedding sum, normalised and projected if the model does
/// so, plus positions if config.positions_last. Rows of hidden tokens are 0 if config.zero_hidden.
[[nodiscard]] Matrix embed(const Embedding& embedding, const input::Sequence& sequence, Pool& pool);

/// Sets the rows of hidden tokens in x [n, d] to 0 if config.zero_hidden.
void clear_hidden(const model::EmbeddingConfig& config, const input::Sequence& sequence, Matrix& x);

struct AttentionInput {
  const input::Sequence& sequence;  // the sequence of the keys, with the masks
  const Matrix& queries;            // [n, d]
  const Matrix& keys;               // [m, kdim]
  const Matrix& values;             // [m, vdim]
};

/// Changes a matrix of the pass; may be empty.
using Edit = std::function<void(MatrixView<double>)>;

/// Calls `edit`, if it is not empty.
inline void apply(const Edit& edit, Matrix& x) {
  if (edit) edit({x.data(), x.shape(0), x.shape(1)});
}

/// Returns the scores, pattern and z of each head, and the layer's attention output. `edit` changes the z of
/// all heads, side by side, before the output is computed.
[[nodiscard]] ReferenceLayer attend(const model::AttentionConfig& config,
                                    const model::AttentionWeights& weights, const AttentionInput& input,
                                    Pool& pool, const Edit& edit = {});

/// Returns one head of a projection [n, heads * width]: the columns [index * width, (index + 1) * width).
[[nodiscard]] Matrix head_columns(const Matrix& projection, std::size_t index, std::size_t width);

enum class Turn { forward, back };

/// Rotates the first rotary.dims columns of row i of one head [n, k] by the angles of position i, and
/// multiplies them by rotary.attention_factor. Turn::back rotates by the negative angles. `length` is the
/// number of queries, which chooses between the frequencies for short and long sequences. Angles, cosines and
/// sines are computed in float32, because the original implementation does so.
[[nodiscard]] Matrix rotate(const model::RotaryConfig& rotary, std::size_t length, const Matrix& x,
                            Turn turn = Turn::forward);

}  // namespace attnctl::reference
