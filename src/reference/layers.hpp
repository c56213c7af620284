#pragma once

#include <cstddef>
#include <cstdint>
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

/// Returns the output of one MLP or expert for x [n, d]. `experts` is empty for an MLP.
[[nodiscard]] Matrix run_one_mlp(const model::MlpConfig& config, const model::ExpertsConfig& experts,
                                 const model::MlpWeights& weights, const Matrix& x, Pool& pool);
/// Returns the weight of each expert for each token [n, experts], given the scores of the router [n,
/// experts]; 0 if the router does not choose the expert.
[[nodiscard]] Matrix expert_weights(const model::ExpertsConfig& config, const Matrix& scores);
/// Returns the output of a layer's MLP or experts for x [n, d].
[[nodiscard]] Matrix run_mlp(const model::LayerConfig& config, const model::LayerWeights& weights,
                             const Matrix& x, Pool& pool);

/// Returns conv(embeddings) [n, d], without the activation.
[[nodiscard]] Matrix convolve(const model::ConvolutionConfig& config, const model::Linear& convolution,
                              const Matrix& embeddings);
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

/// Returns true if attention and MLP of a layer read a normalised copy of the residual stream.
[[nodiscard]] bool reads_normalised(model::NormPlace place);

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

/// Returns the term that is added to the residual stream for the output of the attention or the MLP.
[[nodiscard]] Matrix residual_term(const model::LayerConfig& config, Matrix output,
                                   const model::NormWeights& norm, const model::NormWeights& output_norm,
                                   const Edit& edit = {});

/// Returns the scores, pattern and z of each head, and the layer's attention output. `edit` changes the z of
/// all heads, side by side, before the output is computed.
[[nodiscard]] ReferenceLayer attend(const model::AttentionConfig& config,
                                    const model::AttentionWeights& weights, const AttentionInput& input,
                                    Pool& pool, const Edit& edit = {});

/// The distance embeddings of disentangled attention, projected to keys and queries of all heads: each [2
/// span, heads k]; empty if the layer does not use them.
struct DistanceTables {
  Matrix keys, queries;
};
[[nodiscard]] DistanceTables distance_tables(const model::AttentionConfig& config,
                                             const model::AttentionWeights& weights, Pool& pool);

/// Returns the row of the DeBERTa table for `distance` = query position - key position. Small distances have
/// one row each. If config.logarithmic, larger distances share rows on a logarithmic scale, computed in
/// float32 like the original implementation.
[[nodiscard]] std::size_t distance_row(const model::DisentangledConfig& config, std::int64_t distance);

/// Returns the part of a norm's weights that belongs to one head; all of them if the heads share them.
[[nodiscard]] model::NormWeights norm_of_head(const model::AttentionConfig& config,
                                              const model::NormWeights& norm, std::size_t index);

/// Returns phi(x) = elu(x) + 1, the features of linear attention.
[[nodiscard]] Matrix linear_features(const Matrix& x);

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
